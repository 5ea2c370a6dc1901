//! Measured: locking and unlocking, by the kind of lock.
//!
//! The data that a lock guards is in the same cache line, as in a program that is written for this: a count,
//! and the number of the last thread that counted. The holder reads both and writes the first, and the second
//! if another thread wrote it last. The time for this is hidden behind the lock's own atomic instructions: on
//! Zen 4, lock and unlock take as long with it as around a plain counter.
//!
//! Source: pthread_mutex_lock(3p); U. Drepper, "Futexes Are Tricky", 2011; L. Rudolph, Z. Segall,
//! "Dynamic Decentralized Cache Schemes for MIMD Parallel Processors", ISCA 1984 (test and
//! test-and-set).

use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// A lock, and what it guards.
pub trait Lock: Send + Sync {
    /// Locks, counts one up and unlocks, again and again, until the count is `target`; one more lock and
    /// unlock shows this. `holder` identifies this thread. Returns how often this thread has counted: the
    /// numbers of all threads add up to the count, unless two held the lock at the same time.
    fn count_up_to(&self, target: u64, holder: u64) -> u64;

    /// The data that the lock guards.
    fn guarded(&self) -> Guarded;
}

/// The data that a lock guards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guarded {
    /// How often it was counted up.
    pub count: u64,
    /// How often another thread than the last one counted.
    pub handovers: u64,
    /// The thread that counted last.
    holder: u64,
}

impl Guarded {
    /// Counts one up, unless the count is `target` already.
    #[inline(always)]
    fn count_up(&mut self, target: u64, holder: u64) -> bool {
        if self.count >= target {
            return false;
        }
        self.count += 1;
        if self.holder != holder {
            self.holder = holder;
            self.handovers += 1;
        }
        true
    }
}

/// `std::sync::Mutex`: on Linux a futex, which a thread polls a hundred times before it sleeps.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Std(Mutex<Guarded>);

impl Lock for Std {
    fn count_up_to(&self, target: u64, holder: u64) -> u64 {
        let mut counted = 0;
        // No thread panics while it holds this lock.
        while self.0.lock().unwrap_or_else(PoisonError::into_inner).count_up(target, holder) {
            counted += 1;
        }
        counted
    }

    fn guarded(&self) -> Guarded {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `pthread_mutex_t` of the default type, by the C library's own functions: on Linux a futex; in
/// glibc a thread that finds it taken sleeps at once. glibc leaves the atomic instruction out of
/// the lock, since 2.34, while the process has one thread: a worker of costof always has two.
pub type Pthread = Around<PthreadMutex>;

/// A spinlock: test and test-and-set, with the CPU's hint (`pause`, `isb`) between two polls.
/// It never enters the kernel, so a holder that loses its CPU keeps all others spinning.
pub type Spin = Around<TestAndSet>;

/// A lock that does not know what it guards, together with that data.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Around<L> {
    lock: L,
    guarded: UnsafeCell<Guarded>,
}

/// A lock that [`Around`] can use.
///
/// # Safety
///
/// At most one thread is between the return of `lock` and the call of `unlock`, and the next one sees what it
/// has written there.
pub unsafe trait Exclusive: Send + Sync {
    /// Waits until no other thread has the lock, and takes it.
    ///
    /// # Safety
    ///
    /// The calling thread does not have it, and releases it before it is moved or dropped.
    unsafe fn lock(&self);

    /// Releases it.
    ///
    /// # Safety
    ///
    /// The calling thread has it.
    unsafe fn unlock(&self);
}

// SAFETY: what it guards is touched only by the thread that has the lock.
unsafe impl<L: Exclusive> Sync for Around<L> {}

impl<L: Exclusive> Lock for Around<L> {
    fn count_up_to(&self, target: u64, holder: u64) -> u64 {
        let mut counted = 0;
        loop {
            // SAFETY: this thread takes the lock and releases it; the reference lives in between.
            let goes_on = unsafe {
                self.lock.lock();
                let guarded = &mut *self.guarded.get();
                let goes_on = guarded.count_up(target, holder);
                self.lock.unlock();
                goes_on
            };
            if !goes_on {
                return counted;
            }
            counted += 1;
        }
    }

    fn guarded(&self) -> Guarded {
        // SAFETY: this thread takes the lock, copies and releases it.
        unsafe {
            self.lock.lock();
            let guarded = *self.guarded.get();
            self.lock.unlock();
            guarded
        }
    }
}

/// A mutex of the C library.
#[derive(Debug)]
pub struct PthreadMutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: it is made for several threads.
unsafe impl Sync for PthreadMutex {}
// SAFETY: whoever locks it releases it before it moves, as `Exclusive::lock` demands.
unsafe impl Send for PthreadMutex {}

// SAFETY: that is what a mutex is.
unsafe impl Exclusive for PthreadMutex {
    #[inline(always)]
    unsafe fn lock(&self) {
        // SAFETY: the mutex was initialised, and stays in its place until it is released.
        let status = unsafe { libc::pthread_mutex_lock(self.0.get()) };
        // The default type has no error if the mutex is valid and the caller does not hold it.
        debug_assert_eq!(status, 0);
    }

    #[inline(always)]
    unsafe fn unlock(&self) {
        // SAFETY: as above, and this thread has locked it.
        let status = unsafe { libc::pthread_mutex_unlock(self.0.get()) };
        debug_assert_eq!(status, 0);
    }
}

impl Default for PthreadMutex {
    fn default() -> Self {
        Self(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
    }
}

impl Drop for PthreadMutex {
    fn drop(&mut self) {
        // SAFETY: nobody else has a reference, so it is unlocked and not used again.
        unsafe { libc::pthread_mutex_destroy(self.0.get()) };
    }
}

/// The flag of a spinlock: whether the lock is taken.
#[derive(Debug, Default)]
pub struct TestAndSet(AtomicBool);

// SAFETY: it is set by one thread at a time (acquire), which clears it (release).
unsafe impl Exclusive for TestAndSet {
    #[inline(always)]
    unsafe fn lock(&self) {
        while self.0.swap(true, Ordering::Acquire) {
            while self.0.load(Ordering::Relaxed) {
                spin_loop();
            }
        }
    }

    #[inline(always)]
    unsafe fn unlock(&self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::thread;

    /// Enough for contention with two CPUs.
    const COUNTS: u64 = 3_000_000;

    #[test]
    fn no_count_is_lost_and_the_target_is_met() {
        let locks: [&dyn Lock; 3] = [&Std::default(), &Pthread::default(), &Spin::default()];
        for lock in locks {
            for (batch, threads) in [(1, 1), (2, 2), (3, 4)] {
                let together = Barrier::new(threads as usize);
                let counted: u64 = thread::scope(|scope| {
                    let together = &together;
                    let count = |holder| {
                        move || {
                            together.wait();
                            lock.count_up_to(batch * COUNTS, holder)
                        }
                    };
                    let all: Vec<_> = (1..=threads).map(|n| scope.spawn(count(n))).collect();
                    all.into_iter().map(|one| one.join().unwrap()).sum()
                });
                assert_eq!(counted, COUNTS);
                assert_eq!(lock.guarded().count, batch * COUNTS);
            }
        }
    }

    #[test]
    fn a_handover_is_a_turn_of_another_thread() {
        let lock = Spin::default();
        assert_eq!(lock.count_up_to(3, 1), 3);
        assert_eq!(lock.count_up_to(5, 2), 2);
        assert_eq!(lock.count_up_to(5, 1), 0);
        assert_eq!(lock.guarded().handovers, 2);
    }
}
