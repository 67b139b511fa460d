//! What is published, what is not, and what the C half makes of it.

use super::*;
use crate::segment::{Identity, SegmentLayout};

fn segment() -> Segment {
    let layout = SegmentLayout::of_target(1, 0).expect("within bounds");
    Segment::create_local(layout, 0x1234).expect("memory")
}
