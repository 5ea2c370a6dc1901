//! Threads that may be refused, where the user's or the cgroup's limit is reached.

use costof_model::failure::Failure;

/// Starts a thread that ends by itself.
///
/// # Errors
/// Where the system has no more threads for this user.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(work).map(drop).map_err(|error| {
        Failure::unsupported(format!(
            "cannot start a thread: {error} (ulimit -u and the cgroup's pids.max limit them)"
        ))
    })
}
