//! What a jump displaces at one place, and what is written there.
//!
//! In: instructions that [`displace`] has chosen, or a place that calls a list of functions; in a process, where the code is that it leads to. Out:
//! the bytes to write ([`Window::writes`]), and what must be there before.

mod displace;

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};

use crate::isa::x86_64::cave;
use crate::limits::{CALLED_BYTES, CALLED_LIST, JUMP_BYTES, SHORT_JUMP_BYTES, WRITES_PER_SITE_MAX};

pub use self::displace::{
    FunctionCode, hole_range, is_movable_call, plan, plan_punned, plan_short, plan_to_call, reach,
};

/// What is written over the window.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shape {
    /// `jmp rel32` to the trampoline.
    Near,
    /// `jmp rel8` to a hole, and there a `jmp rel32`.
    Short(Hole),
    /// `jmp rel32` whose last bytes are those of the instructions behind the displaced one, which stay as they are.
    Punned {
        /// What stands there in the file.
        tail: Vec<u8>,
    },
    /// No text is written: a program calls those who want an event by a list of its own ([`Called`]).
    Called(Called),
}

/// A place that calls a list of functions where a word is not 0, as LTTng-UST's: that word, 4 bytes that nothing uses, and the
/// address of the list. What is written leads to a list with one function more.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Called {
    /// What stands there in the process.
    pub old: [u8; CALLED_BYTES],
    /// The list that it leads to: functions, and what each is given first.
    pub others: Vec<(u64, u64)>,
    /// What those are given that are not called any more: this weir's own, in the list of another.
    pub dropped: Vec<u64>,
    /// Address of the function that is called in addition.
    pub function: u64,
    /// Words of 8 bytes that it hands over, at an address that is its second argument ([`ROW_SLOTS`]).
    pub words: u8,
}

/// The register whose slot has the address of all of them: rsi.
pub const ROW_REGISTER: u8 = 6;

/// The slots of the context that a program at such a place finds the words in, one after the other: all but those of ip, sp and bp,
/// and that of si, where the address of all of them is. Further words are read through that address.
pub const ROW_SLOTS: [u8; 17] = [14, 12, 11, 9, 8, 10, 7, 6, 5, 3, 2, 1, 0, 15, 17, 18, 20];

impl Called {
    /// Those of the list that are called still.
    pub fn kept(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.others.iter().copied().filter(|(_, data)| !self.dropped.contains(data))
    }

    /// What is written so that it leads to the list at `list`.
    pub fn leading_to(list: u64) -> [u8; CALLED_BYTES] {
        let mut bytes = [0; CALLED_BYTES];
        bytes[0] = 1;
        bytes[CALLED_LIST..].copy_from_slice(&list.to_le_bytes());
        bytes
    }
}

/// Five bytes that nothing reaches, within reach of a short jump.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hole {
    /// Link address.
    pub address: u64,
    /// What stands there in the file.
    pub bytes: [u8; JUMP_BYTES],
}

impl Hole {
    pub fn range(&self) -> Range<u64> {
        self.address..self.address + JUMP_BYTES as u64
    }
}

/// The instructions that the jump displaces, and what the rest of the function said about them.
#[derive(Clone, Debug)]
pub struct Window {
    /// Link address of the first displaced instruction: where the jump is written.
    pub address: u64,
    /// Displaced instructions, whole, at their link addresses.
    pub instructions: Vec<Instruction>,
    /// Bytes of the displaced instructions.
    pub bytes: Vec<u8>,
    /// Bytes behind them that nothing reaches and that the jump covers too.
    pub padding: Vec<u8>,
    pub shape: Shape,
    /// The jump overwrites the symbol's first instruction (no `endbr64` before it): a kernel uprobe on the same
    /// function would resume inside it.
    pub uprobe_unsafe: bool,
    /// It begins inside the function: what lies below the stack pointer may be live there.
    pub inside: bool,
    /// Bytes below the stack pointer that are free there, where that is a goroutine's; `None`: the rest of a thread's stack.
    pub room: Option<u32>,
    /// The last displaced instruction leaves the function, and programs run right before it, not before the first.
    pub is_exit: bool,
    /// Where the jump of another tracer is displaced, and not what the file has: for each write what the file has there.
    pub beneath: Vec<Vec<u8>>,
}

/// Bytes of text to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Write {
    /// In the target.
    pub address: u64,
    pub old: Vec<u8>,
    pub new: Vec<u8>,
}

impl Window {
    /// Of a word at `address` before the list of those who are called; what stands there is the process's to say.
    pub fn called(address: u64) -> Window {
        Window {
            address,
            instructions: Vec::new(),
            bytes: Vec::new(),
            padding: Vec::new(),
            shape: Shape::Called(Called::default()),
            uprobe_unsafe: false,
            inside: false,
            room: None,
            is_exit: false,
            beneath: Vec::new(),
        }
    }

    /// The same place, as it was found in a process.
    pub fn with_called(self, called: Called) -> Window {
        Window { shape: Shape::Called(called), ..self }
    }

    /// The same place, where the jump of another tracer stands in that place, or in its hole: that is displaced, and comes behind
    /// the programs. Not where several instructions come before them.
    pub fn over(self, jump: [u8; JUMP_BYTES]) -> Option<Window> {
        if !self.parts().0.is_empty() {
            return None;
        }
        let entry = self.covered()[..self.patch_bytes()].to_vec();
        let (at, bytes, shape, beneath) = match self.shape {
            Shape::Near => (self.address, jump.to_vec(), Shape::Near, vec![entry]),
            Shape::Punned { tail } => {
                let (own, borrowed) = jump.split_at(JUMP_BYTES - tail.len());
                if borrowed != tail {
                    return None;
                }
                (self.address, own.to_vec(), Shape::Punned { tail }, vec![entry])
            }
            Shape::Short(hole) => {
                let short = short_jump(self.address, hole.address).to_vec();
                let beneath = vec![hole.bytes.to_vec(), entry];
                (hole.address, short, Shape::Short(Hole { bytes: jump, ..hole }), beneath)
            }
            Shape::Called(_) => return None,
        };
        let instruction = Decoder::with_ip(64, &jump, at, DecoderOptions::NONE).decode();
        let (instructions, padding) = (vec![instruction], Vec::new());
        Some(Window { instructions, bytes, padding, shape, beneath, ..self })
    }

    /// Link addresses of displaced instructions but the first: where no thread may ever continue.
    pub fn interior(&self) -> impl Iterator<Item = u64> + '_ {
        self.instructions.iter().skip(1).map(Instruction::ip)
    }

    /// Displaced instructions that run before the programs, and those that run after them.
    pub fn parts(&self) -> (&[Instruction], &[Instruction]) {
        let before = if self.is_exit { self.instructions.len() - 1 } else { 0 };
        self.instructions.split_at(before)
    }

    /// It displaces one instruction, so that nobody can be inside.
    pub fn is_indivisible(&self) -> bool {
        self.instructions.len() == 1
    }

    /// Link addresses at which nothing may ever arrive: the interior, and padding and holes that are written to.
    pub fn unreachable(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.interior().collect();
        all.extend(self.end()..self.end() + self.padding.len() as u64);
        if let Shape::Short(hole) = &self.shape {
            all.extend(hole.range());
        }
        all
    }

    /// Link addresses of the displaced instructions' bytes, and of padding that the jump covers.
    pub fn displaced(&self) -> Range<u64> {
        self.address..self.end() + self.padding.len() as u64
    }

    /// Link addresses of bytes that are written.
    pub fn written(&self) -> impl Iterator<Item = u64> + '_ {
        let hole = match &self.shape {
            Shape::Short(hole) => hole.range(),
            Shape::Near | Shape::Punned { .. } | Shape::Called(_) => 0..0,
        };
        (self.address..self.address + self.patch_bytes() as u64).chain(hole)
    }

    /// Link addresses of bytes that a punned jump borrows.
    pub fn borrowed(&self) -> impl Iterator<Item = u64> + '_ {
        let length = match &self.shape {
            Shape::Punned { tail } => tail.len() as u64,
            Shape::Near | Shape::Short(_) | Shape::Called(_) => 0,
        };
        self.end()..self.end() + length
    }

    /// Where the function goes on behind the displaced instructions.
    pub fn end(&self) -> u64 {
        self.address + self.bytes.len() as u64
    }

    /// Whether anything comes behind the displaced instructions.
    pub fn goes_on(&self) -> bool {
        self.instructions.last().is_some_and(|last| !cave::ends_flow(last)) && !self.calls()
    }

    /// Whether the last displaced instruction is a call.
    pub fn calls(&self) -> bool {
        self.instructions.last().is_some_and(is_movable_call)
    }

    /// Everything at [`Window::address`] that must be as in the file, or as it was found in the process: displaced instructions, and
    /// what the jump covers or borrows behind them; or what leads to the list.
    pub fn covered(&self) -> Vec<u8> {
        let tail: &[u8] = match &self.shape {
            Shape::Punned { tail } => tail,
            Shape::Near | Shape::Short(_) => &[],
            Shape::Called(called) => &called.old,
        };
        [&self.bytes[..], &self.padding, tail].concat()
    }

    /// Bytes at [`Window::address`] that are written.
    pub fn patch_bytes(&self) -> usize {
        match &self.shape {
            Shape::Near => JUMP_BYTES,
            Shape::Short(_) => SHORT_JUMP_BYTES,
            Shape::Punned { tail } => JUMP_BYTES - tail.len(),
            Shape::Called(_) => CALLED_BYTES,
        }
    }

    /// Where the jump at the window can lead to in a process that adds `bias` to link addresses; `None`: wherever an
    /// island may stand. Empty where that is no address.
    pub fn targets(&self, bias: u64) -> Option<Range<u64>> {
        let Shape::Punned { tail } = &self.shape else { return None };
        let mut displacement = [0; JUMP_BYTES - 1];
        displacement[JUMP_BYTES - 1 - tail.len()..].copy_from_slice(tail);
        let next = self.address.wrapping_add(bias).wrapping_add(JUMP_BYTES as u64);
        let first = next.checked_add_signed(i64::from(i32::from_le_bytes(displacement)));
        let end = first.and_then(|first| first.checked_add(1 << (8 * (JUMP_BYTES - 1 - tail.len()))));
        Some(first.zip(end).map_or(0..0, |(first, end)| first..end))
    }

    /// Texts that are written for it: entries of the journal that it takes.
    pub fn write_count(&self) -> usize {
        match self.shape {
            Shape::Near | Shape::Punned { .. } | Shape::Called(_) => 1,
            Shape::Short(_) => WRITES_PER_SITE_MAX,
        }
    }

    /// What leads to the trampoline at `entry` in a process that adds `bias` to link addresses. In the order of
    /// writing: when the last one, at the window itself, is written, the others must be in place.
    pub fn writes(&self, bias: u64, entry: u64) -> Vec<Write> {
        let at = self.address.wrapping_add(bias);
        let old = self.covered()[..self.patch_bytes()].to_vec();
        match &self.shape {
            Shape::Near => vec![Write { address: at, old, new: near_jump(at, entry).to_vec() }],
            Shape::Punned { tail } => {
                let jump = near_jump(at, entry);
                assert_eq!(jump[self.patch_bytes()..], tail[..], "an outpost stands where its jump leads");
                vec![Write { address: at, old, new: jump[..self.patch_bytes()].to_vec() }]
            }
            Shape::Called(_) => vec![Write { address: at, old, new: Called::leading_to(entry).to_vec() }],
            Shape::Short(hole) => {
                let hole_at = hole.address.wrapping_add(bias);
                let far = Write {
                    address: hole_at,
                    old: hole.bytes.to_vec(),
                    new: near_jump(hole_at, entry).to_vec(),
                };
                vec![far, Write { address: at, old, new: short_jump(at, hole_at).to_vec() }]
            }
        }
    }

    /// How the function is patched, for `--emit sites`.
    pub fn technique(&self) -> String {
        let count = match self.instructions.len() {
            1 => "1 instruction".to_owned(),
            count => format!("{count} instructions"),
        };
        let is_pad = self.instructions.iter().all(|instruction| instruction.mnemonic() == Mnemonic::Nop);
        match &self.shape {
            _ if !self.beneath.is_empty() => "jump over the jump of another tracer".into(),
            Shape::Near if self.is_exit && self.instructions.len() > 1 => {
                format!("jump over {count}, the last an exit")
            }
            Shape::Short(_) => format!("short jump over {count}, through a hole"),
            Shape::Punned { .. } => format!("punned jump over {count}, through an outpost"),
            Shape::Called(_) => "called by the tracepoint".into(),
            Shape::Near if is_pad => "jump over a pad".into(),
            Shape::Near if self.calls() => format!("jump over {count}, the last a call"),
            Shape::Near if !self.padding.is_empty() => format!("jump over {count} and padding"),
            Shape::Near => format!("jump over {count}"),
        }
    }
}

/// `jmp rel8` at `from` to a hole.
fn short_jump(from: u64, hole: u64) -> [u8; SHORT_JUMP_BYTES] {
    let distance = hole.wrapping_sub(from + SHORT_JUMP_BYTES as u64) as i64;
    let distance = i8::try_from(distance).expect("a hole is chosen within reach of a short jump");
    [0xeb, distance as u8]
}

/// `jmp rel32` at `from` to `to`.
pub fn near_jump(from: u64, to: u64) -> [u8; JUMP_BYTES] {
    let displacement = to.wrapping_sub(from + JUMP_BYTES as u64) as i64;
    let displacement = i32::try_from(displacement).expect("an island lies within reach of its sites");
    let mut bytes = [0xe9; JUMP_BYTES];
    bytes[1..].copy_from_slice(&displacement.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::x86_64::body;

    #[test]
    fn a_place_that_calls_a_list_is_written_whole_and_displaces_nothing() {
        let old = [7; CALLED_BYTES];
        let called = Called { old, others: vec![(1, 2)], dropped: Vec::new(), function: 3, words: 4 };
        let window = Window::called(0x1018).with_called(called);
        assert_eq!((window.instructions.len(), window.goes_on(), window.write_count()), (0, false, 1));
        assert_eq!(window.written().count(), CALLED_BYTES);
        let new = [1, 0, 0, 0, 0, 0, 0, 0, 0x40, 0x30, 0x20, 0x10, 0, 0, 0, 0];
        let write = Write { address: 0x5018, old: old.to_vec(), new: new.to_vec() };
        assert_eq!(window.writes(0x4000, 0x1020_3040), [write]);
        // All slots are different ones, and none is of ip, sp, bp or the row's own address.
        let mut slots = ROW_SLOTS.to_vec();
        slots.sort_unstable();
        slots.dedup();
        assert_eq!(slots.len(), ROW_SLOTS.len());
        assert!([4, 13, 16, 19].iter().all(|kept| !slots.contains(kept)));
    }

    /// The windows of a near jump, of one through a hole and of a punned one, each over the jump of another tracer.
    #[test]
    fn a_jump_of_another_is_displaced_in_the_place_that_leads_to_its_code() {
        let jump = |from: u64| near_jump(from, 0x9000);
        let code = [0x53, 0x48, 0x89, 0xfb, 0x48, 0x83, 0xec, 0x10, 0xc3];
        let near = plan(FunctionCode::at_entry(0x1000, &code, &[]), &body::read(0x1000, &code)).unwrap();
        let over = near.clone().over(jump(0x1000)).unwrap();
        assert_eq!((over.instructions[0].near_branch_target(), over.goes_on()), (0x9000, false));
        let wanted =
            Write { address: 0x1000, old: jump(0x1000).to_vec(), new: near_jump(0x1000, 0x8000).to_vec() };
        assert_eq!(
            (over.writes(0, 0x8000), over.beneath),
            (vec![wanted], vec![near.covered()[..5].to_vec()])
        );

        let hole = Hole { address: 0x1040, bytes: [0x90; 5] };
        let short = Window { shape: Shape::Short(hole), ..near.clone() };
        let over = short.over(jump(0x1040)).unwrap();
        // The short jump stands already.
        let (entry, through) = (vec![0xeb, 0x3e], near_jump(0x1040, 0x8000).to_vec());
        let writes = [
            Write { address: 0x1040, old: jump(0x1040).to_vec(), new: through },
            Write { address: 0x1000, old: entry.clone(), new: entry },
        ];
        assert_eq!(over.instructions[0].near_branch_target(), 0x9000);
        assert_eq!((&over.writes(0, 0x8000)[..], &over.beneath[0][..]), (&writes[..], &[0x90; 5][..]));

        let tail = jump(0x1000)[2..].to_vec();
        let punned = |tail| Window { bytes: vec![0x53, 0x90], shape: Shape::Punned { tail }, ..near.clone() };
        let over = punned(tail).over(jump(0x1000)).unwrap();
        assert_eq!((over.bytes, over.beneath), (jump(0x1000)[..2].to_vec(), vec![vec![0x53, 0x90]]));
        // Another text behind it: that jump is not of such a window.
        assert!(punned(vec![1, 2, 3]).over(jump(0x1000)).is_none());
        // Programs come after the first displaced instructions.
        assert!(Window { is_exit: true, ..near }.over(jump(0x1000)).is_none());
    }
}
