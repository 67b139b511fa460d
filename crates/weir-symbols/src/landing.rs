//! Where exceptions land: the landing pads of `.gcc_except_table` (LSB 5.0, 10.6; the layout is GCC's, and LLVM's).
//!
//! In: the file and its frames. Out: the addresses, sorted, or `None` where a table is not understood. The unwinder
//! goes to them by an offset that is neither a branch nor a pointer: whoever asks what leads into code must ask here
//! too. A landing pad may lie in another function's range (GCC moves them to the cold part).

use gimli::{EndianSlice, LittleEndian, Reader as _};

use crate::LinkAddr;
use crate::frames::Frame;
use crate::layout::Segment;
use crate::limits::LANDING_BYTES_PER_FILE_BYTE_MAX;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

pub(crate) fn pads(data: &[u8], segments: &[Segment], frames: &[Frame]) -> Option<Vec<LinkAddr>> {
    let mut budget = (data.len() as u64).saturating_mul(LANDING_BYTES_PER_FILE_BYTE_MAX);
    let mut out = Vec::new();
    for frame in frames {
        let Some(table) = frame.exceptions else { continue };
        let table = table.ok()?;
        let segment = segments.iter().find(|s| s.holds(table))?;
        let at = (segment.offset.0 + (table.0 - segment.address.0)) as usize;
        let end = (segment.offset.0 + segment.file_bytes) as usize;
        let bytes = Bytes::new(data.get(at..end)?, LittleEndian);
        table_pads(bytes, table, frame.range.start, &mut budget, &mut out)?;
    }
    out.sort_unstable();
    out.dedup();
    Some(out)
}

/// One table: header, then call sites.
fn table_pads(
    mut bytes: Bytes<'_>,
    table: LinkAddr,
    function: LinkAddr,
    budget: &mut u64,
    out: &mut Vec<LinkAddr>,
) -> Option<()> {
    const OMITTED: u8 = 0xff;
    /// Signed, 4 bytes, relative to its own address.
    const PCREL_SDATA4: u8 = 0x1b;
    // An absolute base would be the loader's to fill in.
    let base = match bytes.read_u8().ok()? {
        OMITTED => function,
        PCREL_SDATA4 => {
            let distance = i64::from(bytes.read_i32().ok()?);
            LinkAddr(table.0.wrapping_add(1).wrapping_add_signed(distance))
        }
        _ => return None,
    };
    if bytes.read_u8().ok()? != OMITTED {
        bytes.read_uleb128().ok()?;
    }
    let encoding = bytes.read_u8().ok()?;
    let length = bytes.read_uleb128().ok()?;
    *budget = budget.checked_sub(length)?;
    let mut sites = bytes.split(usize::try_from(length).ok()?).ok()?;
    while !sites.is_empty() {
        let (_start, _length) = (number(&mut sites, encoding)?, number(&mut sites, encoding)?);
        let pad = number(&mut sites, encoding)?;
        sites.read_uleb128().ok()?;
        if pad != 0 {
            out.push(LinkAddr(base.0.wrapping_add(pad)));
        }
    }
    Some(())
}

/// A value that is relative to nothing (DW_EH_PE_absptr, uleb128, udata2, udata4, udata8).
fn number(bytes: &mut Bytes<'_>, encoding: u8) -> Option<u64> {
    match encoding {
        0x00 | 0x04 => bytes.read_u64().ok(),
        0x01 => bytes.read_uleb128().ok(),
        0x02 => bytes.read_u16().ok().map(u64::from),
        0x03 => bytes.read_u32().ok().map(u64::from),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pads of a table at 0x5000 of a function at 0x1000.
    fn check(bytes: &[u8], expected: Option<&[u64]>) {
        let (mut budget, mut out) = (64, Vec::new());
        let read = table_pads(
            Bytes::new(bytes, LittleEndian),
            LinkAddr(0x5000),
            LinkAddr(0x1000),
            &mut budget,
            &mut out,
        );
        let found = read.map(|()| out.iter().map(|pad| pad.0).collect::<Vec<_>>());
        assert_eq!(found.as_deref(), expected, "{bytes:02x?}");
    }

    #[test]
    fn pads_are_offsets_from_the_function() {
        // Bases omitted, call sites of LEB128 numbers: start, length, pad, action.
        check(&[0xff, 0xff, 1, 8, 0, 5, 0x20, 0, 5, 5, 0, 0], Some(&[0x1020]));
        // With a table of types, and call sites of 4-byte numbers.
        check(&[0xff, 0x9b, 20, 3, 13, 0, 0, 0, 0, 9, 0, 0, 0, 0, 2, 0, 0, 1], Some(&[0x1200]));
        // From a base of its own: 0x5001 + 0x100.
        check(&[0x1b, 0, 1, 0, 0, 0xff, 1, 4, 0, 5, 0x20, 0], Some(&[0x5121]));
    }

    #[test]
    fn tables_that_are_cut_or_not_understood_are_told() {
        check(&[], None);
        check(&[0xff, 0xff, 1, 8, 0, 5, 0x20], None);
        check(&[0xff, 0xff, 1, 3, 0, 5, 0x20, 0], None);
        check(&[0xff, 0xff, 0x1b, 4, 0, 5, 0x20, 0], None);
        check(&[0x00, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 1, 0], None);
        // More than the budget.
        check(&[0xff, 0xff, 1, 100], None);
    }
}
