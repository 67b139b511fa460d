//! Numbers in a file's byte order.
//!
//! In: bytes and a place in them. The caller has checked that the number lies in the bytes; otherwise this panics.

/// The byte order of a section, or of a classic file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    Little,
    Big,
}

impl Order {
    #[inline]
    pub(crate) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let array = array(bytes, at);
        match self {
            Order::Little => u16::from_le_bytes(array),
            Order::Big => u16::from_be_bytes(array),
        }
    }

    #[inline]
    pub(crate) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let array = array(bytes, at);
        match self {
            Order::Little => u32::from_le_bytes(array),
            Order::Big => u32::from_be_bytes(array),
        }
    }

    #[inline]
    pub(crate) fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let array = array(bytes, at);
        match self {
            Order::Little => u64::from_le_bytes(array),
            Order::Big => u64::from_be_bytes(array),
        }
    }

    /// A time: the upper 32 bits first, in either byte order.
    #[inline]
    pub(crate) fn ticks(self, bytes: &[u8], at: usize) -> u64 {
        u64::from(self.u32(bytes, at)) << 32 | u64::from(self.u32(bytes, at + 4))
    }
}

/// `N` bytes from `at` on.
#[inline]
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    // SANITY: a slice of N bytes is an array of N bytes.
    bytes[at..at + N].try_into().unwrap()
}
