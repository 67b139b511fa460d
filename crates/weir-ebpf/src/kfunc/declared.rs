//! What a traced program declares of the slots of a context, as a tracepoint does of its arguments; and what a call of
//! `weir_declared_copy` asks.
//!
//! Whoever hands a context over vouches for what is declared: that much memory may be read as long as the program runs. So it is
//! copied by loads alone.
//!
//! | kind | of | bits 0 to 7 | 8 to 15 | 16 to 23 | 24 to 31 | 32 to 63 |
//! |---|---|---|---|---|---|---|
//! | 0 | a text | slot of the address | kind | 0 | 0 | 0 |
//! | 1 | bytes | slot of the address | kind | 0 | 0 | how many |
//! | 2 | elements, none where the count is negative | slot of the address | kind | slot of the count | log2 of an element's bytes | 0 |
//! | 3 | a word of a row | slot | kind | 0 | 0 | 0 |
//!
//! Slots from [`ROW_WORDS`] on are no words of the context, but those of a row of words whose address slot [`ROW_SLOT`] has: what a
//! tracepoint passes that has more arguments than there are registers. Kind 3 is such a word itself, not what it leads to.

use std::fmt;

use crate::pt_regs;

/// In the answer of a copy: there was more than it had room for.
pub const CUT: u64 = 1 << 32;
/// What a text is whose address is 0.
pub const NULL_TEXT: &str = "(null)";
/// The least room for a text: that of [`NULL_TEXT`] with its NUL, in whole words.
const TEXT_ROOM_MIN: u32 = 8;
/// Most things beside texts that are declared of one context. Tracepoints of weir have 12 arguments at most.
pub const DECLARED_MAX: usize = 32;
/// Most bytes that one call copies.
const BYTES_MAX: u32 = 1 << 16;
const _: () = assert!(NULL_TEXT.len() < TEXT_ROOM_MIN as usize);

/// The slot with the address of a row: that of rsi.
pub const ROW_SLOT: u8 = (pt_regs::REGISTERS[6] / 8) as u8;
/// What the first word of a row has as a slot. There are up to 64.
pub const ROW_WORDS: u8 = 128;
/// Most words of a row.
pub const ROW_WORDS_MAX: u8 = 64;

/// The word of a row that a slot is, by its index; none of a word of the context.
pub fn row_word(slot: u8) -> Option<u8> {
    slot.checked_sub(ROW_WORDS)
}

/// The word of the context that is read for a slot.
fn context_slot(slot: u8) -> u8 {
    if row_word(slot).is_some() { ROW_SLOT } else { slot }
}

/// What slots of a context lead to. Addresses may be 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Declared {
    /// Bytes up to a NUL.
    Text { slot: u8 },
    /// So many bytes.
    Bytes { slot: u8, bytes: u32 },
    /// As many elements of `1 << shift` bytes as another slot says.
    Elements { slot: u8, count_slot: u8, shift: u8 },
    /// A word of a row, all of it.
    Word { slot: u8 },
}

/// What a call asks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DeclaredCopy {
    pub declared: Declared,
    /// Most bytes.
    pub size: u32,
}

impl Declared {
    /// The slot with the address.
    pub fn slot(self) -> u8 {
        match self {
            Declared::Text { slot }
            | Declared::Bytes { slot, .. }
            | Declared::Elements { slot, .. }
            | Declared::Word { slot } => slot,
        }
    }

    /// Bit n: slot n of the context is read.
    pub fn slots(self) -> u32 {
        let bit = |slot: u8| 1u32.checked_shl(context_slot(slot).into()).unwrap_or(0);
        match self {
            Declared::Elements { slot, count_slot, .. } => bit(slot) | bit(count_slot),
            other => bit(other.slot()),
        }
    }

    /// The fourth argument of a call.
    pub fn which(self) -> u64 {
        match self {
            Declared::Text { slot } => slot.into(),
            Declared::Word { slot } => 3 << 8 | u64::from(slot),
            Declared::Bytes { slot, bytes } => u64::from(bytes) << 32 | 1 << 8 | u64::from(slot),
            Declared::Elements { slot, count_slot, shift } => {
                u64::from_le_bytes([slot, 2, count_slot, shift, 0, 0, 0, 0])
            }
        }
    }

    fn of(which: u64) -> Option<Declared> {
        let [slot, kind, count_slot, shift, ..] = which.to_le_bytes();
        let declared = match kind {
            0 => Declared::Text { slot },
            1 => Declared::Bytes { slot, bytes: (which >> 32) as u32 },
            2 => Declared::Elements { slot, count_slot, shift },
            3 if (ROW_WORDS..ROW_WORDS + ROW_WORDS_MAX).contains(&slot) => Declared::Word { slot },
            _ => return None,
        };
        (declared.which() == which).then_some(declared)
    }
}

impl fmt::Display for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Declared::Text { slot } => write!(f, "a text in slot {slot}"),
            Declared::Word { slot } => write!(f, "slot {slot}"),
            Declared::Bytes { slot, bytes } => write!(f, "{bytes} bytes in slot {slot}"),
            Declared::Elements { slot, count_slot, shift } => {
                write!(
                    f,
                    "elements of {} bytes in slot {slot}, as many as slot {count_slot} says",
                    1u64.wrapping_shl(shift.into())
                )
            }
        }
    }
}

impl DeclaredCopy {
    /// None where there is no room for what a call has to write, too much of it, or elements are no numbers; and where bytes
    /// are not as many as there is room for.
    pub fn new(declared: Declared, size: u32) -> Option<DeclaredCopy> {
        let is_one = match declared {
            Declared::Text { .. } => size >= TEXT_ROOM_MIN,
            Declared::Bytes { bytes, .. } => size == bytes && size > 0,
            Declared::Word { .. } => size == 8,
            Declared::Elements { shift, .. } => shift <= 3 && size > 0,
        };
        (is_one && size <= BYTES_MAX).then_some(DeclaredCopy { declared, size })
    }

    /// Of the arguments of a call.
    pub fn of(size: u64, which: u64) -> Option<DeclaredCopy> {
        DeclaredCopy::new(Declared::of(which)?, u32::try_from(size).ok()?)
    }

    /// The least and most bytes that are written, from the first on.
    pub fn written(&self) -> (u32, u32) {
        let least = match self.declared {
            Declared::Text { .. } => 1,
            Declared::Bytes { .. } | Declared::Word { .. } => self.size,
            Declared::Elements { .. } => 0,
        };
        (least, self.size)
    }

    /// The bytes that are copied, and the answer. `slot` gives what a slot holds; `byte_at` a byte of the process's memory,
    /// and is asked for none that is not declared.
    pub fn copied(&self, slot: impl Fn(u8) -> u64, mut byte_at: impl FnMut(u64) -> u8) -> (Vec<u8>, u64) {
        let mut held = |number: u8| match row_word(number) {
            None => slot(number),
            Some(index) => {
                let at = slot(ROW_SLOT).wrapping_add(8 * u64::from(index));
                u64::from_le_bytes(std::array::from_fn(|byte| byte_at(at.wrapping_add(byte as u64))))
            }
        };
        let address = held(self.declared.slot());
        let (bytes, cut) = match self.declared {
            Declared::Word { .. } => return (address.to_le_bytes().to_vec(), 8),
            Declared::Text { .. } if address == 0 => return ([NULL_TEXT.as_bytes(), b"\0"].concat(), 7),
            Declared::Bytes { bytes, .. } if address == 0 => return (vec![0; bytes as usize], 0),
            Declared::Elements { .. } if address == 0 => return (Vec::new(), 0),
            Declared::Text { .. } => {
                let mut text = Vec::new();
                while text.len() < self.size as usize && text.last() != Some(&0) {
                    text.push(byte_at(address.wrapping_add(text.len() as u64)));
                }
                // SANITY: there is room for more than a byte.
                let last = text.last_mut().expect("a text has a byte");
                let cut = std::mem::replace(last, 0) != 0;
                return (text.clone(), text.len() as u64 | if cut { CUT } else { 0 });
            }
            Declared::Bytes { bytes, .. } => (u64::from(bytes), false),
            Declared::Elements { count_slot, shift, .. } => {
                // What a call has answered that failed is no number of elements.
                let count = held(count_slot);
                let (count, most) = (if count >> 63 == 1 { 0 } else { count }, u64::from(self.size >> shift));
                (count.min(most) << shift, count > most)
            }
        };
        let copied = (0..bytes).map(|at| byte_at(address.wrapping_add(at))).collect();
        (copied, bytes | if cut { CUT } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Declared; 3] = [
        Declared::Text { slot: 3 },
        Declared::Bytes { slot: 20, bytes: 64 },
        Declared::Elements { slot: 9, count_slot: 4, shift: 2 },
    ];

    #[test]
    fn a_copy_is_what_its_arguments_say() {
        for declared in KINDS {
            let copy = DeclaredCopy::new(declared, 64).unwrap();
            assert_eq!(DeclaredCopy::of(64, declared.which()), Some(copy));
            for bit in [15, 63] {
                assert_ne!(
                    DeclaredCopy::of(64, declared.which() ^ 1 << bit),
                    Some(copy),
                    "{declared}: {bit}"
                );
            }
        }
        assert_eq!(KINDS.map(Declared::slots), [1 << 3, 1 << 20, 1 << 9 | 1 << 4]);
    }

    #[test]
    fn slots_of_a_row_are_words_at_the_address_in_its_slot() {
        let row = |slot: u8| if slot == ROW_SLOT { 16 } else { unreachable!("slot {slot}") };
        // Word 0 is the address of "ab", word 1 a count, word 2 the address of two elements.
        let memory: Vec<u8> = [[0; 16], *b"`\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0", *b"p\0\0\0\0\0\0\0________"]
            .concat()
            .into_iter()
            .chain([0; 48])
            .chain(*b"ab\0_____________\x01\x02\x03\x04")
            .collect();
        let copied = |declared: Declared, size| {
            assert_eq!(declared.slots(), 1 << ROW_SLOT);
            let copy = DeclaredCopy::new(declared, size).unwrap();
            assert_eq!(DeclaredCopy::of(size.into(), declared.which()), Some(copy));
            copy.copied(row, |at| memory[at as usize])
        };
        assert_eq!(copied(Declared::Word { slot: ROW_WORDS + 1 }, 8), (vec![3, 0, 0, 0, 0, 0, 0, 0], 8));
        assert_eq!(copied(Declared::Text { slot: ROW_WORDS }, 8), (b"ab\0".to_vec(), 3));
        let elements = Declared::Elements { slot: ROW_WORDS + 2, count_slot: ROW_WORDS + 1, shift: 0 };
        assert_eq!(copied(elements, 8), (vec![1, 2, 3], 3));
        for which in [3 << 8 | 5, 3 << 8 | u64::from(ROW_WORDS + ROW_WORDS_MAX)] {
            assert_eq!(DeclaredCopy::of(8, which), None);
        }
    }

    #[test]
    fn what_has_no_room_or_means_nothing_is_no_copy() {
        let [text, bytes, elements] = KINDS;
        let none = [(text, 7), (bytes, 63), (bytes, 65), (elements, 0), (text, 65_537)];
        for (declared, size) in none {
            assert_eq!(DeclaredCopy::new(declared, size), None, "{declared}: {size}");
        }
        assert_eq!(DeclaredCopy::new(Declared::Bytes { slot: 1, bytes: 0 }, 0), None);
        assert_eq!(DeclaredCopy::new(Declared::Elements { slot: 1, count_slot: 2, shift: 4 }, 64), None);
        assert_eq!(DeclaredCopy::of(64, 3 << 8), None);
        assert_eq!(DeclaredCopy::of(1 << 32 | 64, text.which()), None);
    }

    #[test]
    fn texts_end_at_their_nul_or_where_the_room_does() {
        let copied = |text: &[u8], size| {
            let copy = DeclaredCopy::new(Declared::Text { slot: 0 }, size).unwrap();
            copy.copied(|_| 1, |at| text[at as usize - 1])
        };
        assert_eq!(copied(b"abc\0", 8), (b"abc\0".to_vec(), 4));
        assert_eq!(copied(b"\0", 8), (b"\0".to_vec(), 1));
        assert_eq!(copied(b"abcdefg\0", 8), (b"abcdefg\0".to_vec(), 8));
        assert_eq!(copied(b"abcdefgh", 8), (b"abcdefg\0".to_vec(), 8 | CUT));
    }

    #[test]
    fn elements_are_cut_and_what_is_null_is_not_looked_at() {
        let copied = |declared, size, address, count| {
            let slot = |slot| if slot == 9 { address } else { count };
            DeclaredCopy::new(declared, size).unwrap().copied(slot, |at| at as u8)
        };
        let elements = Declared::Elements { slot: 9, count_slot: 4, shift: 1 };
        assert_eq!(copied(elements, 5, 1, 2), (vec![1, 2, 3, 4], 4));
        assert_eq!(copied(elements, 5, 1, 3), (vec![1, 2, 3, 4], 4 | CUT));
        assert_eq!(copied(elements, 5, 1, u64::MAX >> 1), (vec![1, 2, 3, 4], 4 | CUT));
        assert_eq!(copied(elements, 5, 1, u64::MAX), (vec![], 0));
        assert_eq!(copied(elements, 5, 0, 3), (vec![], 0));
        assert_eq!(copied(Declared::Bytes { slot: 9, bytes: 3 }, 3, 0, 0), (vec![0; 3], 0));
        assert_eq!(copied(Declared::Text { slot: 9 }, 8, 0, 0), (b"(null)\0".to_vec(), 7));
    }
}
