//! Writes how to unwind through generated code: `.eh_frame` and the sorted table of `.eh_frame_hdr` (LSB 5.0, 10.6).
//!
//! In: [`Frame`]s, ranges of code with the distance from the stack pointer to the caller's frame at each place. Out: the
//! bytes of both sections, the header first, for the address where they will stand; every pointer is relative, in the
//! encodings that all unwinders search without decoding (`pcrel | sdata4`, `datarel | sdata4`).
//!
//! Generated code gives callee-saved registers back before it calls anything, so that no rule but the two of a frame
//! is ever needed: where the caller's stack pointer is, and where it goes on.

use std::ops::Range;

/// How to unwind through a range of code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Addresses, never empty. An unwinder looks for a return address less one, so the call before it belongs to it.
    pub code: Range<u64>,
    pub caller: Caller,
}

/// Where the caller's frame is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Caller {
    /// Saved on the stack. Each row: from this offset in the code on, the return address lies so many bytes above the
    /// stack pointer. The first row is at 0, and offsets grow.
    OnStack(Vec<Row>),
    /// The caller's stack pointer is so many bytes above this one, and the return address lies where a DWARF expression
    /// (5, 2.5) says.
    InRecord { above_stack_pointer: u32, address: Vec<u8> },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    pub offset: u32,
    pub above_stack_pointer: u32,
}

/// Bytes that the header and descriptions of `frames` take at most.
pub fn bytes_max(frames: usize) -> usize {
    FIXED_BYTES_MAX + frames * FRAME_BYTES_MAX
}

/// The header, one CIE, the end mark, what alignment takes, and the word that says where the header is.
const FIXED_BYTES_MAX: usize = 80;
/// One entry of the table, and an FDE with seven rows of at most 9 bytes each, or an expression.
const FRAME_BYTES_MAX: usize = 8 + 17 + 7 * 9 + 4;

const HEADER_BYTES: usize = 12;
const ENTRY_BYTES: usize = 8;

// DWARF 5, 7.24 and LSB 5.0, 10.5.1.
const DATAREL_SDATA4: u8 = 0x3b;
const PCREL_SDATA4: u8 = 0x1b;
const UDATA4: u8 = 0x03;
const DW_CFA_ADVANCE_LOC: u8 = 0x40;
const DW_CFA_ADVANCE_LOC4: u8 = 0x04;
const DW_CFA_DEF_CFA: u8 = 0x0c;
const DW_CFA_DEF_CFA_OFFSET: u8 = 0x0e;
const DW_CFA_EXPRESSION: u8 = 0x10;
const DW_CFA_VAL_EXPRESSION: u8 = 0x16;
const DW_CFA_OFFSET_RIP: u8 = 0x80 | RIP;
pub const DW_OP_BREG7: u8 = 0x77;
const RSP: u8 = 7;
const RIP: u8 = 16;

/// `.eh_frame_hdr`, and `.eh_frame` behind it, for `at`. `None` if something lies beyond 2 GiB from there.
pub fn write(at: u64, frames: &[Frame]) -> Option<Vec<u8>> {
    let mut frames: Vec<&Frame> = frames.iter().collect();
    frames.sort_by_key(|frame| frame.code.start);
    let section = HEADER_BYTES + frames.len() * ENTRY_BYTES;
    let mut out = vec![0; section];
    let cie = out.len();
    write_cie(&mut out);
    for (index, frame) in frames.iter().enumerate() {
        let fde = out.len();
        write_fde(&mut out, at, cie, frame)?;
        let entry = HEADER_BYTES + index * ENTRY_BYTES;
        out[entry..entry + 4].copy_from_slice(&relative(frame.code.start, at)?);
        out[entry + 4..entry + 8].copy_from_slice(&(fde as u32).to_le_bytes());
    }
    out.extend_from_slice(&[0; 4]);
    out[..4].copy_from_slice(&[1, PCREL_SDATA4, UDATA4, DATAREL_SDATA4]);
    out[4..8].copy_from_slice(&(section as u32 - 4).to_le_bytes());
    out[8..12].copy_from_slice(&(frames.len() as u32).to_le_bytes());
    Some(out)
}

/// The common part: the caller's frame is 8 bytes above the stack pointer, the return address right below it.
fn write_cie(out: &mut Vec<u8>) {
    let start = open(out);
    out.extend_from_slice(&[0; 4]); // a CIE
    out.push(1); // version
    out.extend_from_slice(b"zR\0");
    out.extend_from_slice(&[1, 0x78, RIP]); // code alignment 1, data alignment -8, return address column
    out.extend_from_slice(&[1, PCREL_SDATA4]);
    out.extend_from_slice(&[DW_CFA_DEF_CFA, RSP, 8, DW_CFA_OFFSET_RIP, 1]);
    close(out, start);
}

fn write_fde(out: &mut Vec<u8>, at: u64, cie: usize, frame: &Frame) -> Option<()> {
    let start = open(out);
    out.extend_from_slice(&((out.len() - cie) as u32).to_le_bytes());
    let from = relative(frame.code.start, at.wrapping_add(out.len() as u64))?;
    out.extend_from_slice(&from);
    out.extend_from_slice(&u32::try_from(frame.code.end - frame.code.start).ok()?.to_le_bytes());
    out.push(0); // no augmentation data
    match &frame.caller {
        Caller::OnStack(rows) => write_rows(out, rows),
        Caller::InRecord { above_stack_pointer, address } => {
            // libgcc tells frames apart by the canonical frame address alone when it lands an exception, and takes the
            // handler's frame for an earlier one of the same address. So this one lies a byte above the stack pointer
            // (and below every other), and where that goes is said apart.
            out.extend_from_slice(&[DW_CFA_DEF_CFA, RSP]);
            write_uleb(out, u64::from(*above_stack_pointer) + 1);
            let mut stack_pointer = vec![DW_OP_BREG7];
            write_sleb(&mut stack_pointer, i64::from(*above_stack_pointer));
            for (rule, register, expression) in
                [(DW_CFA_VAL_EXPRESSION, RSP, &stack_pointer), (DW_CFA_EXPRESSION, RIP, address)]
            {
                out.extend_from_slice(&[rule, register]);
                write_uleb(out, expression.len() as u64);
                out.extend_from_slice(expression);
            }
        }
    }
    close(out, start);
    Some(())
}

fn write_rows(out: &mut Vec<u8>, rows: &[Row]) {
    let mut at = 0;
    for row in rows {
        match row.offset - at {
            0 => {}
            short @ 1..=0x3f => out.push(DW_CFA_ADVANCE_LOC | short as u8),
            long => {
                out.push(DW_CFA_ADVANCE_LOC4);
                out.extend_from_slice(&long.to_le_bytes());
            }
        }
        at = row.offset;
        out.push(DW_CFA_DEF_CFA_OFFSET);
        write_uleb(out, u64::from(row.above_stack_pointer) + 8);
    }
}

/// Leaves room for a length.
fn open(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; 4]);
    out.len()
}

/// Pads with no-operations (DW_CFA_nop) to a multiple of 4, and fills in the length of what began at `start`.
fn close(out: &mut Vec<u8>, start: usize) {
    out.resize(out.len().next_multiple_of(4), 0);
    let length = (out.len() - start) as u32;
    out[start - 4..start].copy_from_slice(&length.to_le_bytes());
}

fn relative(address: u64, to: u64) -> Option<[u8; 4]> {
    Some(i32::try_from(address.wrapping_sub(to) as i64).ok()?.to_le_bytes())
}

fn write_uleb(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Signed LEB128 (DWARF 5, 7.6).
pub fn write_sleb(out: &mut Vec<u8>, mut value: i64) {
    loop {
        let byte = value as u8 & 0x7f;
        value >>= 7;
        let is_last = value == 0 && byte & 0x40 == 0 || value == -1 && byte & 0x40 != 0;
        out.push(if is_last { byte } else { byte | 0x80 });
        if is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use gimli::{
        BaseAddresses, CfaRule, EhFrame, EhFrameHdr, LittleEndian, Register, RegisterRule, UnwindContext,
        UnwindSection as _,
    };

    use super::*;

    const AT: u64 = 0x7f00_0000_1008;
    const CODE: u64 = 0x7f00_0000_0000;

    fn on_stack(start: u64, rows: &[(u32, u32)]) -> Frame {
        let row = |&(offset, above_stack_pointer): &(u32, u32)| Row { offset, above_stack_pointer };
        Frame {
            code: CODE + start..CODE + start + 0x100,
            caller: Caller::OnStack(rows.iter().map(row).collect()),
        }
    }

    fn in_record(start: u64) -> Frame {
        let caller = Caller::InRecord { above_stack_pointer: 0, address: vec![DW_OP_BREG7, 0x78] };
        Frame { code: CODE + start..CODE + start + 0x100, caller }
    }

    type Rule = Option<RegisterRule<usize>>;

    /// The rules at an address of the code, as another reader of the format finds them through the table.
    fn rules(frames: &[Frame], address: u64) -> Option<(CfaRule<usize>, Rule, Rule)> {
        let bytes = write(AT, frames).unwrap();
        assert!(bytes.len() <= bytes_max(frames.len()), "{} bytes", bytes.len());
        let section = HEADER_BYTES + frames.len() * ENTRY_BYTES;
        let bases = BaseAddresses::default().set_eh_frame_hdr(AT).set_eh_frame(AT + section as u64);
        let header = EhFrameHdr::new(&bytes, LittleEndian).parse(&bases, 8).unwrap();
        assert_eq!(header.eh_frame_ptr().direct(), Ok(AT + section as u64));
        let eh_frame = EhFrame::new(&bytes[section..], LittleEndian);
        let table = header.table()?;
        let mut context = UnwindContext::new();
        let found = table.unwind_info_for_address(
            &eh_frame,
            &bases,
            &mut context,
            CODE + address,
            EhFrame::cie_from_offset,
        );
        let row = found.ok()?;
        Some((row.cfa().clone(), row.register(Register(16)), row.register(Register(7))))
    }

    fn cfa(frames: &[Frame], address: u64) -> Option<i64> {
        match rules(frames, address)? {
            (
                CfaRule::RegisterAndOffset { register: Register(7), offset },
                Some(RegisterRule::Offset(-8)),
                _,
            ) => Some(offset),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_row_is_found_where_it_holds() {
        let frames =
            [on_stack(0x100, &[(0, 0), (4, 24), (0x3f, 40), (0x80, 5000)]), on_stack(0x800, &[(0, 136)])];
        let cases = [
            (0x100, Some(8)),
            (0x103, Some(8)),
            (0x104, Some(32)),
            (0x13e, Some(32)),
            (0x13f, Some(48)),
            (0x180, Some(5008)),
            (0x1ff, Some(5008)),
            (0x800, Some(144)),
            (0x0ff, None),
            (0x200, None),
            (0x900, None),
        ];
        for (address, wanted) in cases {
            assert_eq!(cfa(&frames, address), wanted, "{address:#x}");
        }
    }

    #[test]
    fn the_table_is_sorted_whatever_the_order_of_frames() {
        let frames = [on_stack(0x900, &[(0, 16)]), on_stack(0x100, &[(0, 0)]), in_record(0x500)];
        assert_eq!((cfa(&frames, 0x900), cfa(&frames, 0x100)), (Some(24), Some(8)));
    }

    #[test]
    fn a_frame_of_a_record_is_told_from_its_neighbours() {
        let (cfa, caller, stack_pointer) = rules(&[in_record(0x500)], 0x5ff).unwrap();
        assert_eq!(cfa, CfaRule::RegisterAndOffset { register: Register(7), offset: 1 });
        assert!(matches!(caller, Some(RegisterRule::Expression(_))), "{caller:?}");
        assert!(matches!(stack_pointer, Some(RegisterRule::ValExpression(_))), "{stack_pointer:?}");
    }

    #[test]
    fn what_is_too_far_away_is_not_described() {
        let far = Frame { code: CODE - (3 << 30)..CODE - (2 << 30), ..in_record(0) };
        assert_eq!(write(AT, &[far]), None);
    }

    #[test]
    fn describes_nothing() {
        assert_eq!(rules(&[], 0), None);
    }
}
