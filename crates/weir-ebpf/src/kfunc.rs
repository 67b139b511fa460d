//! Functions of the kernel that programs call by BTF id (kfuncs), as far as weir has them, and two of weir's own.
//!
//! A BTF id is of one kernel. So an instruction here names such a function by a number of weir's own, below 0, which no
//! BTF id is; objects and assembly text name it by its name. Meanings are the kernel's; [`TEXT_BEGINS`] and [`DECLARED_COPY`]
//! are in no kernel, which refuses a program that calls them.

mod declared;

pub use declared::{
    CUT, DECLARED_MAX, Declared, DeclaredCopy, NULL_TEXT, ROW_SLOT, ROW_WORDS, ROW_WORDS_MAX, row_word,
};

use crate::helper::Access;

/// A function's number, as in the `imm` of a `CALL` with `src` [`KERNEL`](crate::insn::pseudo::KERNEL).
pub type KfuncId = i32;

/// `bool bpf_session_is_return(void)`: the program runs at the return of the function that it watches.
pub const SESSION_IS_RETURN: KfuncId = i32::MIN;
/// `__u64 *bpf_session_cookie(void)`: 8 bytes that the runs at entry and return of one call share.
pub const SESSION_COOKIE: KfuncId = i32::MIN + 1;
/// `bool weir_text_begins(void *ctx, __u32 which, __u64 a, __u64 b, __u64 c)`: the text whose address is in a slot of the context
/// begins with these bytes. `which` says the slot in its low byte and how many bytes above it ([`TextTest::which`]); the bytes
/// stand in a, b and c, the first in the lowest byte of a. If the last of them is a NUL, the text is what stands before it.
/// Bytes are compared one after the other up to the first that differs: none behind the text's NUL is looked at. A text whose
/// address is 0 begins with nothing.
pub const TEXT_BEGINS: KfuncId = i32::MIN + 2;

/// `__u64 weir_declared_copy(void *to, __u32 size, void *ctx, __u64 which)`: copies what the traced program declares of slots of the
/// context ([`Declared`], which `which` says) to `to`, `size` bytes at most, both constants. The answer is how many bytes that are;
/// where there were more, with [`CUT`].
///
/// A text is copied up to its NUL; of one that is cut the last byte is a NUL all the same, and one whose address is 0 is
/// [`NULL_TEXT`]. What lies behind the NUL in the `size` bytes may be changed. Bytes whose address is 0 are zeros, and elements whose
/// address is 0 are none; the answer is 0 then.
pub const DECLARED_COPY: KfuncId = i32::MIN + 3;

/// Every one that weir knows: number, name, how many arguments it takes, what it does with memory of the process.
pub const KFUNCS: &[(KfuncId, &str, u8, Access)] = &[
    (SESSION_IS_RETURN, "bpf_session_is_return", 0, Access::NONE),
    (SESSION_COOKIE, "bpf_session_cookie", 0, Access::NONE),
    (TEXT_BEGINS, "weir_text_begins", 5, Access::READS),
    (DECLARED_COPY, "weir_declared_copy", 4, Access::READS),
];

/// Bytes of a session's cookie.
pub const SESSION_COOKIE_BYTES: u32 = 8;

/// Most bytes that [`TEXT_BEGINS`] compares with: three registers.
pub const TEXT_BYTES_MAX: usize = 24;

/// What a call of [`TEXT_BEGINS`] asks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TextTest {
    /// Of the context.
    pub slot: u8,
    /// How many bytes there are, at least one.
    pub length: u8,
    /// The bytes, then zeros.
    pub bytes: [u8; TEXT_BYTES_MAX],
}

impl TextTest {
    /// None where `bytes` are too many, none, or have a NUL before the last.
    pub fn new(slot: u8, bytes: &[u8]) -> Option<TextTest> {
        let (_, before) = bytes.split_last()?;
        if bytes.len() > TEXT_BYTES_MAX || before.contains(&0) {
            return None;
        }
        let mut padded = [0; TEXT_BYTES_MAX];
        padded[..bytes.len()].copy_from_slice(bytes);
        Some(TextTest { slot, length: bytes.len() as u8, bytes: padded })
    }

    /// Of the arguments of a call. None where they ask what may not be asked.
    pub fn of(which: u64, words: [u64; 3]) -> Option<TextTest> {
        let slot = which as u8;
        let length = usize::try_from(which >> 8).ok().filter(|length| *length <= TEXT_BYTES_MAX)?;
        let mut bytes = [0; TEXT_BYTES_MAX];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        TextTest::new(slot, &bytes[..length])
    }

    /// The second argument of the call.
    pub fn which(&self) -> i32 {
        i32::from(self.length) << 8 | i32::from(self.slot)
    }

    /// The third and following arguments, as many as there are bytes in.
    pub fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.bytes().chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        })
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// The answer. `byte_at` gives the byte of the text at that distance from its address, and is not asked for one behind a
    /// byte that differs; `address` is that of the text.
    pub fn holds(&self, address: u64, mut byte_at: impl FnMut(u64) -> u8) -> bool {
        let mut bytes = self.bytes().iter().zip(0..);
        address != 0 && bytes.all(|(byte, at)| byte_at(address.wrapping_add(at)) == *byte)
    }
}

pub fn name(id: KfuncId) -> Option<&'static str> {
    KFUNCS.iter().find(|row| row.0 == id).map(|row| row.1)
}

/// How many registers it takes, from r1 on; of one that nobody knows none.
pub fn arguments(id: KfuncId) -> u8 {
    KFUNCS.iter().find(|row| row.0 == id).map_or(0, |row| row.2)
}

/// What a call does with memory of the process; an unknown one may do anything.
pub fn access(id: KfuncId) -> Access {
    KFUNCS.iter().find(|row| row.0 == id).map_or(Access::ALL, |row| row.3)
}

/// Whether it is about the session of the probe.
pub fn is_of_session(id: KfuncId) -> bool {
    matches!(id, SESSION_IS_RETURN | SESSION_COOKIE)
}

pub fn by_name(name: &str) -> Option<KfuncId> {
    KFUNCS.iter().find(|row| row.1 == name).map(|row| row.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_test_is_what_its_arguments_say() {
        for bytes in [&b"a"[..], b"\0", b"abcdefg\0", b"abcdefghi", b"abcdefghijklmnopqrstuvw\0"] {
            let test = TextTest::new(9, bytes).unwrap();
            let mut words = [0; 3];
            test.words().zip(&mut words).for_each(|(word, slot)| *slot = word);
            assert_eq!(TextTest::of(test.which() as u64, words), Some(test));
            assert_eq!(test.bytes(), bytes);
        }
    }

    #[test]
    fn nothing_too_much_and_a_nul_before_the_end_are_no_tests() {
        for bytes in [&b""[..], b"a\0b", b"\0\0", &[b'x'; 25]] {
            assert_eq!(TextTest::new(0, bytes), None, "{bytes:?}");
        }
        assert_eq!(TextTest::of(25 << 8, [u64::MAX; 3]), None);
        assert_eq!(TextTest::of(u64::MAX, [u64::MAX; 3]), None);
    }

    #[test]
    fn bytes_behind_one_that_differs_are_not_looked_at() {
        let holds = |test: &[u8], text: &[u8]| {
            let test = TextTest::new(0, test).unwrap();
            test.holds(1, |at| text[at as usize - 1])
        };
        assert!(holds(b"ab", b"abc"));
        assert!(holds(b"ab\0", b"ab\0"));
        assert!(!holds(b"abc", b"ab\0"));
        assert!(!holds(b"ab\0", b"abc"));
        assert!(!holds(b"b", b"\0"));
        assert!(!TextTest::new(0, b"a").unwrap().holds(0, |_| unreachable!("the address is 0")));
    }
}
