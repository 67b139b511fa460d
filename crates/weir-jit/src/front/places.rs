//! Where the elements of array and per-CPU maps lie: from weir-rt's layout of the segment, the only authority.

use weir_ebpf::MapSpec;
use weir_rt::executable::{LanePolicy, SiteAbi};
use weir_rt::segment::SegmentLayout;

use crate::JitError;

/// What code needs of one map's layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MapPlace {
    /// Bytes from one element of a lane to the next.
    pub(crate) elem_stride: u32,
    /// Bytes from an element to the same element of the next lane.
    pub(crate) lane_stride: u64,
    /// The lane that a program without one of its own updates; 0 where there are none.
    pub(crate) shared_lane: u32,
}

/// One per map. The journal stands before the maps and changes no stride, so its size does not matter here.
pub(crate) fn places(maps: &[MapSpec], abi: &SiteAbi) -> Result<Vec<MapPlace>, JitError> {
    let layout = match abi.lanes {
        LanePolicy::Claimed { .. } => SegmentLayout::plan_claimable(maps, abi.cpus)?,
        LanePolicy::Rseq { .. } | LanePolicy::Shared => SegmentLayout::plan(maps, abi.cpus)?,
    };
    let place = |map: &weir_rt::segment::MapLayout| MapPlace {
        elem_stride: map.elem_stride,
        lane_stride: map.lane_stride,
        shared_lane: map.shared_lane(),
    };
    Ok(layout.maps.iter().map(place).collect())
}
