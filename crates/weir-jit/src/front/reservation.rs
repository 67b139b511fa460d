//! Records that are reserved in a ring of the CPU's own, inside a restartable section: whether one can be, and what code needs to know of it.

use weir_ebpf::MapSpec;
use weir_rt::executable::{CpuSource, LanePolicy, SiteAbi, TidSource};

use crate::front::places::MapPlace;

/// Bytes before a payload, and what the bytes of a record are a multiple of.
pub(crate) const HEAD_BYTES: u64 = 16;

/// A reservation in the rings of a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reservation {
    pub(crate) map: u32,
    /// Bytes of the payload; none: what the register says at run time.
    pub(crate) size: Option<u32>,
    /// Bytes of one ring, and from one to the next.
    pub(crate) bytes: u32,
    pub(crate) stride: i32,
    pub(crate) rseq: i32,
    pub(crate) signature: u32,
    /// The oldest records give way to new ones.
    pub(crate) overwrites: bool,
    /// Where the thread's id is, from fs, if that is known.
    pub(crate) tid: Option<i32>,
}

impl Reservation {
    /// None where the helper is to be called: the map has one ring for all, the site no restartable sections or no
    /// counter to read, or the record is larger than a ring.
    pub(crate) fn new(
        index: u32,
        map: &MapSpec,
        place: &MapPlace,
        size: Option<u64>,
        abi: &SiteAbi,
    ) -> Option<Reservation> {
        let (rseq, signature) = match abi.lanes {
            LanePolicy::Rseq { offset, signature } => (offset, signature),
            LanePolicy::Claimed { cpu: CpuSource::Rseq { offset, signature } } => (offset, signature?),
            LanePolicy::Claimed { .. } | LanePolicy::Shared => return None,
        };
        let bytes = place.elem_stride;
        let need = size.unwrap_or(0).checked_add(HEAD_BYTES);
        let fits = need.is_some_and(|need| need <= u64::from(bytes));
        let stride = i32::try_from(place.lane_stride).ok()?;
        (map.has_rings_per_cpu() && abi.reads_ticks && fits).then_some(Reservation {
            map: index,
            size: size.map(|size| size as u32),
            bytes,
            stride,
            rseq,
            signature,
            overwrites: map.overwrites(),
            tid: match abi.tid {
                TidSource::ThreadControlBlock { offset } => Some(offset),
                TidSource::Syscall => None,
            },
        })
    }

    /// The size is known.
    pub(crate) fn is_sized(self) -> bool {
        self.size.is_some()
    }

    /// Bytes of the record, if they are known.
    pub(crate) fn need(self) -> Option<i32> {
        // LIMIT: RING_BYTES_MAX.
        self.size.map(|size| (u64::from(size) + HEAD_BYTES).next_multiple_of(HEAD_BYTES) as i32)
    }
}
