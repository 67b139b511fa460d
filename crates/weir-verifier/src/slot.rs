//! 8 bytes of stack: a value stored whole, two numbers of 32 bits, or single bytes.

use crate::alu::apply;
use crate::half::Half;
use crate::scalar::Scalar;

use crate::tnum::Tnum;
use crate::value::{Join, Value};
use weir_ebpf::insn::alu;

/// 8 bytes of stack.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Slot {
    /// An 8-byte store, as it was stored.
    Spilled(Value),
    /// The low and the high half, at least one of them a number of which more is known than its bytes say.
    Halves([Part; 2]),
    Bytes([Byte; 8]),
}

/// 4 bytes of stack.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Part {
    Number(Narrow),
    Bytes([Byte; 4]),
}

/// A number of 32 bits; a [`Scalar`] in less room.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Narrow {
    half: Half,
    value: u32,
    mask: u32,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Byte {
    Uninit,
    Unknown,
    Known(u8),
}

impl Narrow {
    /// The low 32 bits of `number`.
    fn of(number: Scalar) -> Narrow {
        let bits = number.bits.low(32);
        Narrow { half: number.half(), value: bits.value as u32, mask: bits.mask as u32 }
    }

    fn number(self) -> Scalar {
        let bits = Tnum { value: self.value.into(), mask: self.mask.into() };
        Scalar::from_bits(bits).with_half(self.half)
    }
}

impl Part {
    fn of(number: Scalar) -> Part {
        let low = number.low(32);
        let bytes = std::array::from_fn(|index| byte_of(low, index as u32));
        match bits_of(&bytes).map(Scalar::from_bits) {
            Some(said) if said == low => Part::Bytes(bytes),
            _ => Part::Number(Narrow::of(low)),
        }
    }

    fn bytes(self) -> [Byte; 4] {
        match self {
            Part::Bytes(all) => all,
            Part::Number(narrow) => {
                let number = narrow.number();
                std::array::from_fn(|index| byte_of(number, index as u32))
            }
        }
    }

    /// None where a byte of it is unreadable.
    fn number(self) -> Option<Scalar> {
        match self {
            Part::Number(narrow) => Some(narrow.number()),
            Part::Bytes(all) => bits_of(&all).map(Scalar::from_bits),
        }
    }

    fn join(self, other: Part, how: Join) -> Part {
        match (self, other) {
            _ if self == other => self,
            (Part::Bytes(mine), Part::Bytes(theirs)) => {
                let join = |(mine, theirs)| join_bytes(mine, theirs);
                let mut joined = mine.into_iter().zip(theirs).map(join);
                Part::Bytes(std::array::from_fn(|_| joined.next().unwrap_or(Byte::Uninit)))
            }
            _ => match (self.number(), other.number()) {
                (Some(mine), Some(theirs)) if matches!(how, Join::Hull | Join::HullOfAll) => {
                    Part::of(mine.join(theirs))
                }
                (Some(_), Some(_)) => Part::Bytes([Byte::Unknown; 4]),
                _ => Part::Bytes([Byte::Uninit; 4]),
            },
        }
    }
}

impl Slot {
    /// Byte by byte; the bytes of a pointer are unreadable.
    pub(crate) fn bytes(self) -> [Byte; 8] {
        match self {
            Slot::Bytes(all) => all,
            Slot::Spilled(Value::Scalar(scalar)) => {
                std::array::from_fn(|index| byte_of(scalar, index as u32))
            }
            Slot::Spilled(_) => [Byte::Uninit; 8],
            Slot::Halves(parts) => {
                let [low, high] = parts.map(Part::bytes);
                std::array::from_fn(|index| if index < 4 { low[index] } else { high[index - 4] })
            }
        }
    }

    pub(crate) fn parts(self) -> [Part; 2] {
        match self {
            Slot::Halves(parts) => parts,
            Slot::Spilled(Value::Scalar(whole)) => {
                let upper = apply(alu::RSH, 0, true, whole, Scalar::constant(32));
                [whole, upper].map(Part::of)
            }
            _ => {
                let all = self.bytes();
                [0, 4].map(|from| Part::Bytes(std::array::from_fn(|index| all[from + index])))
            }
        }
    }

    /// Of two parts.
    fn of(parts: [Part; 2]) -> Slot {
        match parts {
            [Part::Bytes(low), Part::Bytes(high)] => {
                Slot::Bytes(std::array::from_fn(|index| if index < 4 { low[index] } else { high[index - 4] }))
            }
            _ => Slot::Halves(parts),
        }
    }

    /// What a load of `bytes` (1, 2, 4 or 8) at byte `first` gives. Err: what is wrong.
    pub(crate) fn load(self, first: u32, bytes: u32) -> Result<Value, &'static str> {
        let from = |number: Scalar, byte: u32| {
            let shifted = apply(alu::RSH, 0, true, number, Scalar::constant(u64::from(8 * byte)));
            Ok(Value::Scalar(shifted.low(8 * bytes)))
        };
        match self {
            Slot::Spilled(Value::Dynptr { .. }) => Err("part of a dynptr, which helpers alone read"),
            Slot::Spilled(value) if bytes == 8 => Ok(value),
            Slot::Spilled(Value::Scalar(number)) => from(number, first),
            Slot::Spilled(_) => Err("part of a pointer that was stored there"),
            Slot::Halves(parts) if bytes < 8 => {
                let number = parts[first as usize / 4].number().ok_or(UNWRITTEN)?;
                from(number, first % 4)
            }
            _ => {
                let all = self.bytes();
                let bits = bits_of(&all[first as usize..(first + bytes) as usize]).ok_or(UNWRITTEN)?;
                Ok(Value::Scalar(Scalar::from_bits(bits)))
            }
        }
    }

    /// After a store of a number of `bytes` (1, 2 or 4) at byte `first`.
    pub(crate) fn with(self, first: u32, bytes: u32, number: Scalar) -> Slot {
        let mut parts = self.parts();
        let part = &mut parts[first as usize / 4];
        *part = if bytes == 4 {
            Part::of(number)
        } else {
            let mut all = part.bytes();
            for (index, byte) in all[first as usize % 4..][..bytes as usize].iter_mut().enumerate() {
                *byte = byte_of(number, index as u32);
            }
            Part::Bytes(all)
        };
        Slot::of(parts)
    }

    pub(crate) fn join(self, other: Slot, how: Join) -> Slot {
        if self == other {
            return self;
        }
        let ([low, high], [low2, high2]) = (self.parts(), other.parts());
        Slot::of([low.join(low2, how), high.join(high2, how)])
    }

    /// Everything in `new`, which is no pointer where this is none, is in this one.
    pub(crate) fn covers_bytes_of(self, new: Slot) -> bool {
        self.parts().into_iter().zip(new.parts()).all(|parts| match parts {
            (Part::Number(old), new) => new.number().is_some_and(|new| old.number().contains(new)),
            (Part::Bytes(old), new) => old.into_iter().zip(new.bytes()).all(|pair| match pair {
                (Byte::Uninit, _) => true,
                (Byte::Unknown, new) => new != Byte::Uninit,
                (Byte::Known(_), _) => pair.0 == pair.1,
            }),
        })
    }
}

const UNWRITTEN: &str = "bytes that were never written";

fn join_bytes(mine: Byte, theirs: Byte) -> Byte {
    match (mine, theirs) {
        (Byte::Uninit, _) | (_, Byte::Uninit) => Byte::Uninit,
        (mine, theirs) if mine == theirs => mine,
        _ => Byte::Unknown,
    }
}

/// Byte `index` of a number, from the least.
fn byte_of(scalar: Scalar, index: u32) -> Byte {
    let byte = scalar.bits.rsh(8 * index).low(8);
    if byte.mask == 0 { Byte::Known(byte.value as u8) } else { Byte::Unknown }
}

/// The number in little-endian `bytes`; None where one is unreadable.
pub(crate) fn bits_of(bytes: &[Byte]) -> Option<Tnum> {
    bytes.iter().rev().try_fold(Tnum::constant(0), |bits, byte| {
        let above = bits.lsh(8);
        match byte {
            Byte::Uninit => None,
            Byte::Unknown => Some(Tnum { value: above.value, mask: above.mask | 0xff }),
            Byte::Known(byte) => Some(Tnum { value: above.value | u64::from(*byte), mask: above.mask }),
        }
    })
}
