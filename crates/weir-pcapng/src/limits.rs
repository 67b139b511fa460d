//! Bounds of what is read and written, each named once.

/// LIMIT: bytes of a block, read or written, or of a classic record with its header. libpcap takes no longer blocks at first either.
pub(crate) const BLOCK_BYTES_MAX: u32 = 16 << 20;

/// LIMIT: interfaces of a section, read or written.
pub(crate) const INTERFACES_MAX: u32 = 1 << 16;

/// LIMIT: bytes of all interface description blocks of a section, whose texts are kept while it is read.
pub(crate) const INTERFACE_BYTES_MAX: u64 = 64 << 20;

/// Bytes that a writer gathers before it writes them.
pub(crate) const WRITE_BYTES: usize = 256 << 10;

/// Bytes of a reader's buffer at first; it grows up to a block's.
pub(crate) const WINDOW_BYTES: usize = 256 << 10;

// The smallest block that can be asked for fits without growing.
const _: () = assert!(WINDOW_BYTES < BLOCK_BYTES_MAX as usize);
// One block of the greatest size may describe an interface.
const _: () = assert!(BLOCK_BYTES_MAX as u64 <= INTERFACE_BYTES_MAX);

/// What a [`Reader`](crate::Reader) takes at most; more is an [`Error`](crate::Error) that names the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of a block, or of a classic record with its header. The reader's buffer grows to at most twice this.
    pub block_bytes: u32,
    /// Interfaces of a section.
    pub interfaces: u32,
    /// Bytes of all interface description blocks of a section.
    pub interface_bytes: u64,
}

impl Default for Limits {
    /// Blocks of 16 MiB, 65536 interfaces, 64 MiB of descriptions.
    fn default() -> Limits {
        Limits {
            block_bytes: BLOCK_BYTES_MAX,
            interfaces: INTERFACES_MAX,
            interface_bytes: INTERFACE_BYTES_MAX,
        }
    }
}
