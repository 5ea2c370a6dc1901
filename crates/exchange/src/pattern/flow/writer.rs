//! How the sender of a flow writes its messages.

use std::io;
use std::os::fd::BorrowedFd;

use costof_os::net::field_sender::FieldSender;

/// How messages of one size are written to a socket, one after the other.
pub trait Writer: Send {
    /// Bytes of a message.
    fn size(&self) -> usize;

    /// Sends the next message.
    ///
    /// # Errors
    ///
    /// Those of the system's call; ENOBUFS if a device's queue has no room for a datagram.
    fn send(&mut self) -> io::Result<()>;

    /// The socket.
    fn socket(&self) -> BorrowedFd<'_>;
}

impl Writer for FieldSender {
    fn size(&self) -> usize {
        self.messages().size()
    }

    #[inline]
    fn send(&mut self) -> io::Result<()> {
        self.send()
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.socket()
    }
}
