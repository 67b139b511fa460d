//! Bytes by a plan → slots, roles, registers.
//!
//! In: what is held of a packet (a window), and the place in it. Out: the place behind, with the values in [`State`]; or that the window
//! ends too early; or what cannot be. Slots are 8 bytes: an integer's value, extended to 64 bits as its sign says; a floating-point
//! number's bits as a double; where a text begins in the window and how many bytes it has, in the upper and the lower half;
//! the number of elements, followed by where they begin (packed ones) or by the elements; the index of a variant's option,
//! followed by the option; 1 or 0, the first followed by the field that is optional.
//!
//! Guaranteed: no byte outside of the window is looked at, and an event has at most [`VALUES_MAX`] elements and slots.

use std::ffi::CStr;

use crate::class::{ByteOrder, Role};
use crate::limits::{EMPTY_ELEMENTS_MAX, VALUES_MAX};
use crate::read::plan::{Count, Kind, Op, Plan, Width};

/// What decoding leaves behind, and goes on with.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) slots: Vec<u64>,
    /// By [`crate::class::Scope`]: where its slots begin.
    pub(crate) scopes: [u32; 6],
    /// By number: what was read last for it.
    pub(crate) registers: Vec<i128>,
    /// By [`Role`]: what was read last, of what has been asked for.
    pub(crate) roles: [Option<u64>; Role::COUNT],
    /// The stream's clock, after what was read last.
    pub(crate) clock: u64,
    /// Elements that are being read.
    loops: Vec<Loop>,
}

/// Elements of an array or a sequence.
#[derive(Clone, Copy, Debug)]
struct Loop {
    /// How many are not yet read.
    left: u64,
    /// Where the reads of each begin.
    first: usize,
    /// Where the one that is read began, in bits.
    at: u64,
}

impl State {
    pub(crate) fn new(registers: usize) -> State {
        State { registers: vec![0; registers], ..State::default() }
    }

    pub(crate) fn role(&self, role: Role) -> Option<u64> {
        self.roles[role as usize]
    }
}

/// Why decoding went no further.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// There are not enough bytes.
    Short,
    /// These bytes are not what the plan says.
    Wrong(String),
}

/// Reads what the plan says from bit `at` of `bytes` on, of which `bits` count. The place behind, in bits.
pub(crate) fn decode(
    plan: &Plan,
    uuid: Option<&[u8; 16]>,
    bytes: &[u8],
    bits: u64,
    at: u64,
    state: &mut State,
) -> Result<u64, Stop> {
    debug_assert!(bits <= bytes.len() as u64 * 8);
    let mut at = at;
    let mut pc = 0;
    let mut last = 0u64;
    let mut variable_bits = 0;
    let mut elements_left = VALUES_MAX as u64;
    let mut empty_left = EMPTY_ELEMENTS_MAX;
    state.loops.clear();
    while let Some(op) = plan.ops.get(pc) {
        pc += 1;
        match *op {
            Op::Scope(scope) => state.scopes[scope as usize] = state.slots.len() as u32,
            Op::Align(align) => {
                at = at.next_multiple_of(u64::from(align));
                within(at, bits)?;
            }
            Op::Run { first, count, bytes: length } => {
                let begin = (at / 8) as usize;
                at += u64::from(length) * 8;
                within(at, bits)?;
                let run = &bytes[begin..begin + length as usize];
                let loads = &plan.loads[first as usize..(first + count) as usize];
                state.slots.extend(loads.iter().map(|load| number(&run[load.at as usize..], load.kind)));
            }
            Op::Fixed { kind, is_shown } => {
                let begin = (at / 8) as usize;
                at += kind.width.bytes() as u64 * 8;
                within(at, bits)?;
                last = number(&bytes[begin..], kind);
                if is_shown {
                    state.slots.push(last);
                }
            }
            Op::Bits { bits: width, is_signed, order, is_float, is_reversed, is_shown } => {
                within(at + u64::from(width), bits)?;
                last = bitwise(bytes, at, width, is_signed, order);
                if is_reversed {
                    last = extended(last.reverse_bits() >> (64 - width), width, is_signed);
                }
                at += u64::from(width);
                match width {
                    32 if is_float => last = f64::from(f32::from_bits(last as u32)).to_bits(),
                    16 if is_float => last = half(last as u16).to_bits(),
                    _ => {}
                }
                if is_shown {
                    state.slots.push(last);
                }
            }
            Op::Variable { is_signed, is_shown } => {
                let (begin, end) = ((at / 8) as usize, (bits / 8) as usize);
                let (value, length) = variable(bytes.get(begin..end).unwrap_or_default(), is_signed)?;
                at += u64::from(length) * 8;
                variable_bits = length * 7;
                last = value;
                if is_shown {
                    state.slots.push(last);
                }
            }
            Op::WideStr { unit, is_shown } => {
                let (begin, end) = ((at / 8) as usize, (bits / 8) as usize);
                let rest = bytes.get(begin..end).unwrap_or_default();
                let length = before_nul(rest, unit).ok_or(Stop::Short)?;
                at = (begin + length + usize::from(unit)) as u64 * 8;
                if is_shown {
                    state.slots.push((begin as u64) << 32 | length as u64);
                }
            }
            Op::Wide { length, unit, is_shown } => {
                let whole = elements(length, state)?;
                let begin = at / 8;
                at = whole.checked_mul(8).and_then(|bits| at.checked_add(bits)).ok_or(Stop::Short)?;
                within(at, bits)?;
                let text = &bytes[begin as usize..(begin + whole) as usize];
                let length = match before_nul(text, unit) {
                    Some(length) => length as u64,
                    None if whole.is_multiple_of(unit.into()) => whole,
                    None => {
                        let text = format!("a text of {whole} bytes, in units of {unit}");
                        return Err(Stop::Wrong(text));
                    }
                };
                if is_shown {
                    state.slots.push(begin << 32 | length);
                }
            }
            Op::Str { is_shown } => {
                let begin = (at / 8) as usize;
                let end = (bits / 8) as usize;
                let text = bytes.get(begin..end).and_then(|rest| CStr::from_bytes_until_nul(rest).ok());
                let length = text.ok_or(Stop::Short)?.count_bytes();
                at = (begin + length + 1) as u64 * 8;
                if is_shown {
                    state.slots.push((begin as u64) << 32 | length as u64);
                }
            }
            Op::Save { register, is_signed } => {
                let value = if is_signed { i128::from(last as i64) } else { i128::from(last) };
                state.registers[usize::from(register)] = value;
            }
            Op::Role(role) => state.roles[role as usize] = Some(last),
            Op::Clock { bits } => state.clock = later(state.clock, last, bits),
            Op::VariableClock => state.clock = later(state.clock, last, variable_bits),
            Op::Uuid => {
                let begin = (at / 8) as usize;
                at += 128;
                within(at, bits)?;
                if uuid.is_some_and(|uuid| bytes[begin..begin + 16] != uuid[..]) {
                    return Err(Stop::Wrong("this packet has another trace's UUID".to_owned()));
                }
            }
            Op::Packed { count, bytes: width, is_shown } => {
                let count = elements(count, state)?;
                let length = count.checked_mul(u64::from(width) * 8).ok_or(Stop::Short)?;
                let begin = at / 8;
                at = at.checked_add(length).ok_or(Stop::Short)?;
                within(at, bits)?;
                if is_shown {
                    state.slots.extend([count, begin]);
                }
            }
            Op::Each { count, end, is_shown } => {
                let count = elements(count, state)?;
                elements_left = elements_left.checked_sub(count).ok_or_else(too_many)?;
                if is_shown {
                    state.slots.push(count);
                }
                match count {
                    0 => pc = end as usize,
                    left => state.loops.push(Loop { left, first: pc, at }),
                }
            }
            Op::Next => {
                if state.slots.len() > VALUES_MAX {
                    return Err(too_many());
                }
                // SANITY: `Each` has pushed it, and jumps lead nowhere into what is repeated.
                let innermost = state.loops.last_mut().expect("a loop");
                if innermost.at == at {
                    empty_left = empty_left.checked_sub(1).ok_or_else(|| {
                        Stop::Wrong(format!(
                            "more than {EMPTY_ELEMENTS_MAX} elements without a bit in one event"
                        ))
                    })?;
                }
                innermost.left -= 1;
                innermost.at = at;
                if innermost.left > 0 {
                    pc = innermost.first;
                } else {
                    state.loops.pop();
                }
            }
            Op::Select { register, ranges, range_count, options, is_shown } => {
                let value = state.registers[usize::from(register)];
                let ranges = &plan.ranges[ranges as usize..(ranges + range_count) as usize];
                let found = ranges.iter().find(|(first, last, _)| (*first..=*last).contains(&value));
                let Some((.., option)) = found else {
                    return Err(Stop::Wrong(format!("no option of a variant is chosen by {value}")));
                };
                if is_shown {
                    state.slots.push(u64::from(*option));
                }
                pc = plan.options[(options + option) as usize] as usize;
            }
            Op::Optional { register, ranges, range_count, end, is_shown } => {
                let value = state.registers[usize::from(register)];
                let ranges = &plan.ranges[ranges as usize..(ranges + range_count) as usize];
                let is_there = ranges.iter().any(|(first, last, _)| (*first..=*last).contains(&value));
                if is_shown {
                    state.slots.push(is_there.into());
                }
                if !is_there {
                    pc = end as usize;
                }
            }
            Op::Jump(to) => pc = to as usize,
        }
    }
    Ok(at)
}

fn within(at: u64, bits: u64) -> Result<(), Stop> {
    if at <= bits { Ok(()) } else { Err(Stop::Short) }
}

fn too_many() -> Stop {
    Stop::Wrong(format!("more than {VALUES_MAX} values in one event"))
}

fn elements(count: Count, state: &State) -> Result<u64, Stop> {
    match count {
        Count::Fixed(count) => Ok(count),
        Count::Register(register) => {
            let count = state.registers[usize::from(register)];
            u64::try_from(count).map_err(|_| Stop::Wrong(format!("a sequence of {count} elements")))
        }
    }
}

/// A number of whole bytes, as a slot has it.
pub(crate) fn number(bytes: &[u8], kind: Kind) -> u64 {
    macro_rules! load {
        ($of:ty) => {{
            // SANITY: whoever calls has checked the bounds of all that is read together.
            let bytes = *bytes.first_chunk().expect("checked");
            if kind.is_big { <$of>::from_be_bytes(bytes) } else { <$of>::from_le_bytes(bytes) }
        }};
    }
    match kind.width {
        Width::U8 => u64::from(bytes[0]),
        Width::I8 => i64::from(bytes[0] as i8) as u64,
        Width::U16 => u64::from(load!(u16)),
        Width::I16 => i64::from(load!(i16)) as u64,
        Width::U32 => u64::from(load!(u32)),
        Width::I32 => i64::from(load!(i32)) as u64,
        Width::F32 => f64::from(load!(f32)).to_bits(),
        Width::All64 => load!(u64),
    }
}

/// So many bits from bit `at` on. Little-endian numbers fill bytes from their lowest bit on, others from the highest (CTF 1.8.3, 4.1.5).
fn bitwise(bytes: &[u8], at: u64, bits: u8, is_signed: bool, order: ByteOrder) -> u64 {
    let (first, skipped) = ((at / 8) as usize, (at % 8) as u32);
    let bits = u32::from(bits);
    let count = (skipped + bits).div_ceil(8) as usize;
    let held = &bytes[first..first + count];
    let all = match order {
        ByteOrder::Little => {
            held.iter().rev().fold(0u128, |all, byte| all << 8 | u128::from(*byte)) >> skipped
        }
        ByteOrder::Big => {
            let all = held.iter().fold(0u128, |all, byte| all << 8 | u128::from(*byte));
            all >> (count as u32 * 8 - skipped - bits)
        }
    };
    extended(all as u64, bits as u8, is_signed)
}

/// The lowest bits, extended to 64 as the sign says.
fn extended(value: u64, bits: u8, is_signed: bool) -> u64 {
    let unused = 64 - bits;
    let value = value << unused;
    if is_signed { ((value as i64) >> unused) as u64 } else { value >> unused }
}

/// A number of seven bits a byte, the lowest first (LEB128), and its bytes. One that 64 bits cannot hold is refused.
#[cold]
fn variable(bytes: &[u8], is_signed: bool) -> Result<(u64, u8), Stop> {
    let mut value = 0u64;
    for (index, byte) in (0u8..10).zip(bytes) {
        let (low, is_last) = (u64::from(byte & 0x7f), byte & 0x80 == 0);
        // Of the tenth byte one bit has room; the others are the sign's.
        let fits = if is_signed { matches!(low, 0 | 0x7f) } else { low <= 1 };
        let has_room = index < 9 || is_last && fits;
        if !has_room {
            break;
        }
        value |= low << (7 * index);
        if is_last {
            let bits = (7 * (index + 1)).min(64);
            return Ok((extended(value, bits, is_signed), index + 1));
        }
    }
    match bytes.len() {
        0..10 => Err(Stop::Short),
        _ => Err(Stop::Wrong("an integer of variable length that has more than 64 bits".to_owned())),
    }
}

/// Bytes before the first unit of zeros.
#[cold]
fn before_nul(bytes: &[u8], unit: u8) -> Option<usize> {
    let unit = usize::from(unit);
    let nul = bytes.chunks_exact(unit).position(|unit| unit.iter().all(|byte| *byte == 0));
    nul.map(|index| index * unit)
}

/// A number of binary16 (IEEE 754-2008, 3.4) as a double, which has room for each.
#[cold]
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
    let (exponent, mantissa) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    sign * match exponent {
        0 => mantissa * 2f64.powi(-24),
        0x1f if mantissa == 0.0 => f64::INFINITY,
        0x1f => f64::NAN,
        _ => (1024.0 + mantissa) * 2f64.powi(exponent - 25),
    }
}

/// The clock's next value whose lowest bits are these: it has wrapped at most once.
fn later(clock: u64, low: u64, bits: u8) -> u64 {
    if bits >= 64 {
        return low;
    }
    let mask = (1u64 << bits) - 1;
    let low = low & mask;
    let next = clock & !mask | low;
    if low < clock & mask { next.wrapping_add(mask + 1) } else { next }
}

/// A packed element by its index, as a slot has it.
pub(crate) fn element(bytes: &[u8], begin: u64, index: u64, kind: Kind) -> u64 {
    let at = begin as usize + index as usize * kind.width.bytes();
    number(&bytes[at..], kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_taken_from_either_end() {
        let bytes = [0b1010_0101, 0b1100_0011, 0xff];
        let little = |at, bits, signed| bitwise(&bytes, at, bits, signed, ByteOrder::Little) as i64;
        let big = |at, bits, signed| bitwise(&bytes, at, bits, signed, ByteOrder::Big) as i64;
        assert_eq!((little(0, 5, false), little(5, 3, false), little(5, 3, true)), (0b00101, 0b101, -3));
        assert_eq!((little(5, 7, false), big(5, 7, false)), (0b001_1101, 0b101_1100));
        assert_eq!((big(0, 5, false), big(0, 16, false), big(0, 16, true)), (0b10100, 0xa5c3, -0x5a3d));
        let long = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        assert_eq!(bitwise(&long, 4, 64, false, ByteOrder::Little), 0x9080_7060_5040_3020);
        assert_eq!(bitwise(&long, 4, 64, false, ByteOrder::Big), 0x1020_3040_5060_7080);
    }

    #[test]
    fn numbers_of_variable_length_have_at_most_64_bits() {
        let unsigned = |bytes: &[u8]| variable(bytes, false);
        let signed = |bytes: &[u8]| variable(bytes, true).map(|(value, length)| (value as i64, length));
        assert_eq!((unsigned(&[0x7f, 9]), signed(&[0x7f, 9])), (Ok((127, 1)), Ok((-1, 1))));
        // The values of CTF2-SPEC-2.0, examples 98 and 99.
        assert_eq!(unsigned(&[0xb4, 0xc7, 0x72]), Ok((1_876_916, 3)));
        assert_eq!(signed(&[0xb4, 0xc7, 0x72]), Ok((-220_236, 3)));
        assert_eq!((unsigned(&[0x80, 0]), signed(&[0xff, 0x7f])), (Ok((0, 2)), Ok((-1, 2))));
        assert_eq!(
            (unsigned(&[]), unsigned(&[0x80]), unsigned(&[0xff; 9])),
            (Err(Stop::Short), Err(Stop::Short), Err(Stop::Short))
        );
        let most = [&[0xff; 9][..], &[1]].concat();
        assert_eq!(unsigned(&most), Ok((u64::MAX, 10)));
        assert_eq!(signed(&[&[0x80; 9][..], &[0x7f]].concat()), Ok((i64::MIN, 10)));
        assert_eq!(signed(&[&[0xff; 9][..], &[0]].concat()), Ok((i64::MAX, 10)));
        for (end, is_signed) in [(2, false), (1, true), (0x7e, true), (0x80, false), (0xff, true)] {
            let stop = variable(&[&[0xff; 9][..], &[end, 0]].concat(), is_signed).unwrap_err();
            assert!(matches!(stop, Stop::Wrong(text) if text.contains("more than 64 bits")), "{end}");
        }
    }

    #[test]
    fn halves_are_doubles() {
        let check = |bits, value: f64| assert_eq!(half(bits), value, "{bits:#x}");
        check(0, 0.0);
        check(0x3c00, 1.0);
        check(0xc000, -2.0);
        check(0x7bff, 65504.0);
        check(1, 2f64.powi(-24));
        check(0x0400, 2f64.powi(-14));
        check(0xfc00, f64::NEG_INFINITY);
        assert!(half(0x7e00).is_nan() && half(0x8000).is_sign_negative());
    }

    #[test]
    fn a_clock_wraps_at_most_once() {
        assert_eq!(later(0x1_0000_00f0, 0xf1, 8), 0x1_0000_00f1);
        assert_eq!(later(0x1_0000_00f0, 0xf0, 8), 0x1_0000_00f0);
        assert_eq!(later(0x1_0000_00f0, 0x01, 8), 0x1_0000_0101);
        assert_eq!(later(7, 3, 64), 3);
    }
}
