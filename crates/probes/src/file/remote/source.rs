//! A remote file, and reading it block by block, by this process's own NFS client or by the kernel's.

use super::client::{Client, Completed, ReadError};
use super::mounted::{Mounted, MountedFile};
use super::server::{self, NfsFile, TIMEOUT};
use crate::prelude::*;
use costof_os::net::handshake::Handshake;
use costof_os::net::reserved_port;
use std::net::SocketAddr;

/// The blocks that fill the link, and how many are in flight; of a mounted path it is one.
pub(super) const RATE_BLOCK_BYTES: u64 = 64 << 10;
pub(super) const RATE_DEPTH: usize = 4;

/// A remote file.
pub(super) enum Source {
    /// On an NFS server, with its URL.
    Nfs(String, NfsFile),
    /// On a mounted file system.
    Mounted(Mounted),
}

/// A file that is being read in blocks.
pub(super) struct Reader {
    name: String,
    pub(super) size_bytes: u64,
    pub(super) block: usize,
    pub(super) depth: usize,
    /// The address of its server, if that is known.
    server: Option<SocketAddr>,
    via: Via,
}

enum Via {
    Client(Client),
    Kernel(MountedFile),
}

impl Source {
    fn size_bytes(&self) -> u64 {
        match self {
            Source::Nfs(_, file) => file.size_bytes,
            Source::Mounted(mounted) => mounted.size_bytes,
        }
    }

    /// Prepares for small calls alone.
    ///
    /// # Errors
    /// As for [`Source::open`].
    pub(super) fn open_for_calls(self) -> Result<Reader> {
        let block = self.size_bytes().min(512) as usize;
        self.open(block, 1)
    }

    /// Prepares to read it as fast as possible over the link.
    ///
    /// # Errors
    /// As for [`Source::open`].
    pub(super) fn open_for_rate(self) -> Result<Reader> {
        let (most, depth) = match &self {
            Source::Nfs(_, file) => (file.max_read_bytes.min(RATE_BLOCK_BYTES), RATE_DEPTH),
            Source::Mounted(_) => (RATE_BLOCK_BYTES, 1),
        };
        let block = self.size_bytes().min(most) as usize;
        self.open(block, depth)
    }

    /// Prepares to read it in blocks of this size, with this many in flight.
    ///
    /// # Errors
    /// If the file is shorter or the server reads less, or if opening or connecting fails.
    pub(super) fn open(self, block: usize, depth: usize) -> Result<Reader> {
        let size_bytes = self.size_bytes();
        if size_bytes < block as u64 {
            unsupported!(
                "the file has {} and a block {} (a smaller --set block=…, or a larger file)",
                display_bytes(size_bytes),
                display_bytes(block as u64)
            );
        }
        let (name, server, via) = match self {
            Source::Nfs(url, file) => {
                let client = connect(&url, &file, block, depth)?;
                (url, Some(file.server), Via::Client(client))
            }
            Source::Mounted(_) if depth > 1 => unsupported!(
                "a mounted path is read by one call at a time (--set depth=1, or a URL nfs://…)"
            ),
            Source::Mounted(mounted) => {
                let file = mounted.open(block)?;
                (mounted.name, None, Via::Kernel(file))
            }
        };
        Ok(Reader { name, size_bytes, block, depth, server, via })
    }
}

fn connect(url: &str, file: &NfsFile, block: usize, depth: usize) -> Result<Client> {
    if file.max_read_bytes < block as u64 {
        unsupported!(
            "the server reads at most {} per call (a smaller --set block=…)",
            display_bytes(file.max_read_bytes)
        );
    }
    let connected = reserved_port::connect(&file.server, TIMEOUT);
    let client = connected.and_then(|stream| Client::new(stream, file, (block, depth), TIMEOUT));
    client.map_err(|error| {
        let why = server::connection_error(&error, TIMEOUT);
        Failure::error(format!("reading {url}: {why}"))
    })
}

impl Reader {
    /// Reads only the file's first `bytes` bytes, if that is not 0.
    ///
    /// # Errors
    /// If the file has fewer, or that is less than a block.
    pub(super) fn only_first(mut self, bytes: u64) -> Result<Reader> {
        if bytes > 0 && !(self.block as u64..=self.size_bytes).contains(&bytes) {
            unsupported!(
                "size={} is more than the file's {}, or less than a block of {} (--set size=, --set block=)",
                display_bytes(bytes),
                display_bytes(self.size_bytes),
                display_bytes(self.block as u64)
            );
        }
        if bytes > 0 {
            self.size_bytes = bytes;
        }
        Ok(self)
    }

    pub(super) fn null(&mut self) -> Result {
        let result = match &mut self.via {
            Via::Client(client) => client.null(),
            Via::Kernel(file) => file.null().map_err(ReadError::Connection),
        };
        result.map_err(|error| self.failed(&error))
    }

    #[inline]
    pub(super) fn request(&mut self, offset: u64, began: u64) -> Result {
        let result = match &mut self.via {
            Via::Client(client) => client.request(offset, began),
            Via::Kernel(file) => {
                file.request(offset, began);
                Ok(())
            }
        };
        result.map_err(|error| self.failed(&error))
    }

    #[inline]
    pub(super) fn complete(&mut self) -> Result<Completed> {
        let result = match &mut self.via {
            Via::Client(client) => client.complete(),
            Via::Kernel(file) => file.complete(),
        };
        result.map_err(|error| self.failed(&error))
    }

    pub(super) fn in_flight(&self) -> usize {
        match &self.via {
            Via::Client(client) => client.in_flight(),
            Via::Kernel(file) => file.in_flight(),
        }
    }

    /// A handshake with the server that has begun; none where the server is not known.
    pub(super) fn begin_handshake(&self) -> Option<Handshake> {
        let handshake = Handshake::begin(self.server.as_ref()?).ok()?;
        handshake.reset_on_close().ok()?;
        Some(handshake)
    }

    /// The same while a reply is arriving: some of it is here, and the rest, or the next one, is in
    /// the link.
    pub(super) fn begin_handshake_loaded(&mut self) -> Result<Option<Handshake>> {
        if let Via::Client(client) = &mut self.via {
            let arriving = client.wait_for_reply();
            arriving.map_err(|error| self.failed(&error))?;
        }
        Ok(self.begin_handshake())
    }

    #[cold]
    fn failed(&self, error: &ReadError) -> Failure {
        error.failure(&self.name, TIMEOUT)
    }
}
