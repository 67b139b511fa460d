//! What a file can say of a packet beside its bytes.

/// An algorithm of a packet's hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HashAlgorithm {
    /// 2s complement; the draft does not say how long.
    TwosComplement,
    /// XOR; the draft does not say how long.
    Xor,
    /// 4 bytes.
    Crc32,
    /// 16 bytes.
    Md5,
    /// 20 bytes.
    Sha1,
    /// 4 bytes: what network cards spread packets over queues by (RSS).
    Toeplitz,
    /// Another, by its number.
    Other(u8),
}

impl HashAlgorithm {
    /// From the option's first byte.
    pub(crate) fn from_byte(byte: u8) -> HashAlgorithm {
        match byte {
            0 => HashAlgorithm::TwosComplement,
            1 => HashAlgorithm::Xor,
            2 => HashAlgorithm::Crc32,
            3 => HashAlgorithm::Md5,
            4 => HashAlgorithm::Sha1,
            5 => HashAlgorithm::Toeplitz,
            other => HashAlgorithm::Other(other),
        }
    }

    /// As the option's first byte.
    pub(crate) fn byte(self) -> u8 {
        match self {
            HashAlgorithm::TwosComplement => 0,
            HashAlgorithm::Xor => 1,
            HashAlgorithm::Crc32 => 2,
            HashAlgorithm::Md5 => 3,
            HashAlgorithm::Sha1 => 4,
            HashAlgorithm::Toeplitz => 5,
            HashAlgorithm::Other(other) => other,
        }
    }
}

/// A hash of a packet (epb_hash).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hash<'a> {
    /// How it was computed.
    pub algorithm: HashAlgorithm,
    /// The hash, in no byte order.
    pub bytes: &'a [u8],
}

/// What was decided about a packet (epb_verdict).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict<'a> {
    /// By hardware, in its own words.
    Hardware(&'a [u8]),
    /// By a program of the kernel's traffic control: `TC_ACT_`.
    Tc(u64),
    /// By an XDP program: `XDP_`.
    Xdp(u64),
    /// By another, whose number this is.
    Other(u8, &'a [u8]),
}

/// Who sent a packet (epb_processid_threadid); 0: not known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ProcessThread {
    /// The process.
    pub process: u32,
    /// Its thread.
    pub thread: u32,
}
