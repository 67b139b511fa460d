//! Address ranges of `.eh_frame`'s frame description entries (LSB 5.0, 10.6.1).
//!
//! In: the section's bytes. Out: the entries, sorted by start, without empty ones. Read until the first broken
//! entry. Each CIE is parsed once, when its turn comes; an FDE may refer only to one that stands before it, as all
//! assemblers write them: otherwise a hostile section could have a long CIE parsed by every one of its FDEs.

use std::collections::HashMap;
use std::ops::Range;

use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, LittleEndian, UnwindSection as _};

use crate::LinkAddr;
use crate::layout::FrameSection;

/// One entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Frame {
    pub(crate) range: Range<LinkAddr>,
    /// The address of its exception table; `Err` where that stands in memory that only the loader fills.
    pub(crate) exceptions: Option<Result<LinkAddr, ()>>,
}

pub(crate) fn read(data: &[u8], section: &FrameSection) -> Vec<Frame> {
    let mut bases = BaseAddresses::default().set_eh_frame(section.address.0);
    if let Some(text) = section.text {
        bases = bases.set_text(text.0);
    }
    let frames = EhFrame::new(&data[section.bytes.clone()], LittleEndian);
    let mut cies = HashMap::new();
    let mut out = Vec::new();
    let mut entries = frames.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        match entry {
            CieOrFde::Cie(cie) => {
                cies.insert(cie.offset(), cie);
            }
            CieOrFde::Fde(partial) => {
                let parsed = partial.parse(|_: &EhFrame<EndianSlice<'_, LittleEndian>>, _, offset| {
                    cies.get(&offset.0).cloned().ok_or(gimli::Error::NotCiePointer(offset.0 as u64))
                });
                let Ok(fde) = parsed else { continue };
                if let Some(end) = fde.initial_address().checked_add(fde.len())
                    && fde.len() > 0
                {
                    let exceptions = fde.lsda().map(|pointer| match pointer {
                        gimli::Pointer::Direct(address) => Ok(LinkAddr(address)),
                        gimli::Pointer::Indirect(_) => Err(()),
                    });
                    let range = LinkAddr(fde.initial_address())..LinkAddr(end);
                    out.push(Frame { range, exceptions });
                }
            }
        }
    }
    out.sort_by_key(|frame| (frame.range.start, frame.range.end));
    out
}

/// The range that begins at `address`.
pub(crate) fn starting_at(ranges: &[Range<LinkAddr>], address: LinkAddr) -> Option<Range<LinkAddr>> {
    let at = ranges.partition_point(|range| range.start < address);
    ranges.get(at).filter(|range| range.start == address).cloned()
}

/// The range that contains `address`.
pub(crate) fn containing(ranges: &[Range<LinkAddr>], address: LinkAddr) -> Option<Range<LinkAddr>> {
    let after = ranges.partition_point(|range| range.start <= address);
    ranges[..after].last().filter(|range| address < range.end).cloned()
}
