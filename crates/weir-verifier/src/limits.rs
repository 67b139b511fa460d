//! Every bound of the verifier.

use weir_ebpf::kfunc::{DECLARED_MAX, Declared, row_word};

/// Bounds of one verification. The defaults are the kernel's where it has the same bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Most instruction slots of a program.
    pub slots_max: usize,
    /// Most instructions followed over all paths; bounds the time (about a second on one core).
    pub explored_insns_max: u32,
    /// Most branches waiting to be followed at one time; bounds the memory (some KiB each).
    pub pending_branches_max: usize,
    /// Most states remembered at one instruction, to recognise what was seen.
    pub states_per_insn_max: usize,
    /// Most states remembered in all (some KiB each).
    pub states_max: usize,
    /// Helpers that change the process they run in (`Access::changes` of weir-ebpf) are accepted.
    pub allow_changes: bool,
    /// A program may read stack that it never wrote: then engines zero its frames
    /// ([`VerifiedProgram::zeroes_frames`](crate::VerifiedProgram::zeroes_frames)).
    pub allow_unwritten_stack: bool,
    /// Bit n: slot n of a probe's context holds 0 or the address of a text, which whoever hands the context over vouches for: it
    /// may be read from there on up to a NUL, as long as the program runs. `weir_text_begins` is for such slots alone.
    pub text_slots: u32,
    /// Bit n: the same of word n of a row, and how many words that has: of those `weir_declared_copy` copies alone.
    pub text_words: u64,
    /// As above.
    pub row_words: u8,
    /// What else slots of a probe's context lead to, vouched for in the same way. `weir_declared_copy` is for this, and for texts.
    pub declared: [Option<Declared>; DECLARED_MAX],
}

impl Limits {
    /// For programs whose context leads to these things too. Those that are more than [`DECLARED_MAX`] it does not.
    pub fn with_declared(mut self, declared: &[Declared]) -> Limits {
        for &declared in declared {
            match declared {
                Declared::Text { slot } => match row_word(slot) {
                    None => self.text_slots |= declared.slots(),
                    Some(word) => self.text_words |= 1u64.checked_shl(word.into()).unwrap_or(0),
                },
                Declared::Word { slot } => {
                    let words = row_word(slot).map_or(0, |word| word.saturating_add(1));
                    self.row_words = self.row_words.max(words);
                }
                _ if self.declared.contains(&Some(declared)) => {}
                _ => {
                    if let Some(place) = self.declared.iter_mut().find(|place| place.is_none()) {
                        *place = Some(declared);
                    }
                }
            }
        }
        self
    }

    pub(crate) fn declares(&self, declared: Declared) -> bool {
        match declared {
            Declared::Text { slot } => match row_word(slot) {
                None => self.text_slots & declared.slots() != 0,
                Some(word) => self.text_words.checked_shr(word.into()).unwrap_or(0) & 1 != 0,
            },
            Declared::Word { slot } => row_word(slot).is_some_and(|word| word < self.row_words),
            _ => self.declared.contains(&Some(declared)),
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            slots_max: 65_536,
            explored_insns_max: 1_000_000,
            pending_branches_max: 8_192,
            states_per_insn_max: 32,
            states_max: 16_384,
            allow_changes: false,
            allow_unwritten_stack: true,
            text_slots: 0,
            text_words: 0,
            row_words: 0,
            declared: [None; DECLARED_MAX],
        }
    }
}

/// Bytes of stack below r10 (Linux: MAX_BPF_STACK).
pub(crate) const STACK_BYTES: i64 = 512;

/// Most frames of nested local calls, the program's own included (Linux: MAX_CALL_FRAMES).
pub(crate) const CALL_DEPTH_MAX: usize = 8;

/// A frame counts as a multiple of this many bytes among nested ones (Linux, where a JIT runs the program).
pub(crate) const FRAME_BYTES_UNIT: u64 = 16;

/// Furthest that a pointer may be moved from its object, either way (Linux: BPF_MAX_VAR_OFF). Far below where
/// sums of offsets could wrap.
pub(crate) const POINTER_OFFSET_MAX: i64 = 1 << 29;

/// Most bytes of a map's key. A key may come from a ring record or another map, so the stack is no bound.
pub(crate) const KEY_BYTES_MAX: u32 = 1 << 16;

/// Most bytes of a map's value: every offset inside is a legal pointer offset.
pub(crate) const VALUE_BYTES_MAX: u32 = 1 << 28;

/// Most bytes of memory that a program is lent (weir-rt lends no more).
pub(crate) const MEMORY_BYTES_MAX: u32 = 1 << 28;

/// Addresses in one stack of a map of stacks (Linux: PERF_MAX_STACK_DEPTH).
pub(crate) const STACK_DEPTH_MAX: u32 = 127;

/// Bytes of the header before each record in a ring (Linux: BPF_RINGBUF_HDR_SZ).
pub(crate) const RING_HEADER_BYTES: u32 = 8;

/// Largest errno that a helper returns, negated (Linux: MAX_ERRNO).
pub(crate) const ERRNO_MAX: i64 = 4095;

const _: () = assert!((VALUE_BYTES_MAX as i64) < POINTER_OFFSET_MAX);
const _: () = assert!((MEMORY_BYTES_MAX as i64) < POINTER_OFFSET_MAX);
const _: () = assert!((weir_ebpf::map::RING_BYTES_MAX as i64) < POINTER_OFFSET_MAX);
const _: () = assert!(STACK_BYTES % 8 == 0 && STACK_BYTES / 8 <= 64, "a slot is a bit of a 64-bit mask");
