//! Classifiers on packets where they lie: no copy, and a few stores a run.
//!
//! In: a packet's bytes, its length on the wire, and what else is said of it ([`PacketFields`]). Out: r0. What the program
//! writes into its context is lost. Which words of the frame are filled in is decided when the program is loaded, by what it
//! reads ([`Executable::context_reads`]).
//!
//! Deliberately not here: metadata, and headers that are elsewhere than [`Context::classifier`](crate::Context::classifier)
//! says.

use weir_ebpf::context::{self, Field, Meaning, packet};
use weir_ebpf::{ProgramKind, pt_regs};

use super::LocalProgram;
use crate::executable::Executable;
use crate::isa::native::call::{self, CALLEE_SAVED, LEN, WIRE_LEN, weir_rt_classify_fields};
use crate::limits::LENT_BYTES_MAX;
use weir_memory::set_number;

/// What is said of a packet beside its bytes and its length: the fields of a classifier's context, all 0 at first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(align(16))]
pub struct PacketFields([u64; WORDS]);

/// Words of a frame from [`packet::FIELDS`] on.
const WORDS: usize = (pt_regs::BYTES - packet::FIELDS) as usize / 8;

impl PacketFields {
    /// All 0.
    pub const NONE: &'static PacketFields = &PacketFields([0; WORDS]);

    /// Says what the field of this name holds, as [`Context::set_field`](crate::Context::set_field) does.
    pub fn set(&mut self, name: &str, value: u64) {
        if let Some(field) = context::field_named(ProgramKind::Classifier, name) {
            self.set_field(field, value);
        }
    }

    /// The same of a field that was looked up before (`weir_ebpf::context::field_named`). The lengths are those of each run.
    pub fn set_field(&mut self, field: &Field, value: u64) {
        if field.meaning == Meaning::Number {
            set_number(&mut self.0[(field.at - packet::FIELDS) as usize / 8], field, value);
        }
    }
}

/// How a program is entered with a packet that is its caller's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// Address of the code.
    code: u64,
    /// A packet that it may write to has fewer bytes than this; 0 if it is no classifier. And one that is lent for reading: 0 as
    /// well if it may write.
    bytes_end: usize,
    read_bytes_end: usize,
    words: Words,
    writes_packet: bool,
}

/// Which words of its frame it reads at most.
#[derive(Clone, Copy, Debug)]
enum Words {
    /// Where the packet and its headers begin, and where it ends.
    Bytes,
    /// [`BARE`].
    Bare,
    All,
}

/// Slots that the shortest way fills in.
const BYTES: u32 =
    Field::slots(packet::DATA, packet::FIELDS - packet::DATA) & !Field::slots(packet::DATA_META, 8);
/// Slots that the short way fills in; those of the lengths have a field of each packet in their upper half.
const BARE: u32 = Field::slots(packet::DATA, packet::FIELDS - packet::DATA)
    | Field::slots(LEN, 8)
    | Field::slots(WIRE_LEN, 8);

impl Way {
    pub(super) fn of(executable: &Executable, code: u64) -> Way {
        let is_classifier = executable.kind == ProgramKind::Classifier;
        // What the JIT makes keeps them all.
        let keeps = executable.clobbers & CALLEE_SAVED == 0;
        let reads_more = executable.reads_cookie || executable.uses_session;
        let bytes_end = if is_classifier && keeps { LENT_BYTES_MAX as usize + 1 } else { 0 };
        Way {
            code,
            bytes_end,
            read_bytes_end: if executable.writes_packet { 0 } else { bytes_end },
            words: match executable.context_reads {
                _ if reads_more => Words::All,
                reads if reads & !BYTES == 0 => Words::Bytes,
                reads if reads & !BARE == 0 => Words::Bare,
                _ => Words::All,
            },
            writes_packet: executable.writes_packet,
        }
    }
}

impl LocalProgram {
    /// The program may write to the packet: then it is run by [`LocalProgram::classify_mut`].
    pub fn writes_packet(&self) -> bool {
        self.way.writes_packet
    }

    /// Runs a classifier on a packet, of which `bytes` were captured and `wire_bytes` were on the wire; the lower half of r0.
    ///
    /// # Panics
    /// If the program is no classifier or may write to its packet, or if there are more than `limits::LENT_BYTES_MAX` bytes.
    #[inline]
    pub fn classify(&self, bytes: &[u8], wire_bytes: u32, fields: &PacketFields) -> u32 {
        if bytes.len() >= self.way.read_bytes_end {
            self.refuse(bytes.len(), false);
        }
        // SAFETY: the bytes may be read until this returns, and the program writes to none.
        unsafe { self.enter(bytes.as_ptr(), bytes.len(), wire_bytes, fields) }
    }

    /// The same for a program that may write to the packet.
    ///
    /// # Panics
    /// If the program is no classifier, or if there are more than `limits::LENT_BYTES_MAX` bytes.
    #[inline]
    pub fn classify_mut(&self, bytes: &mut [u8], wire_bytes: u32, fields: &PacketFields) -> u32 {
        if bytes.len() >= self.way.bytes_end {
            self.refuse(bytes.len(), true);
        }
        // SAFETY: the bytes may be read and written until this returns.
        unsafe { self.enter(bytes.as_mut_ptr(), bytes.len(), wire_bytes, fields) }
    }

    /// Why the program is not run on so many bytes.
    #[cold]
    #[inline(never)]
    fn refuse(&self, bytes: usize, may_write: bool) -> ! {
        assert!(self.way.bytes_end > 0, "a program of kind {} is no classifier", self.kind);
        assert!(
            may_write || !self.way.writes_packet,
            "the program may write to its packet, which is lent for reading"
        );
        panic!("{bytes} bytes; the limit is {LENT_BYTES_MAX}");
    }

    /// # Safety
    /// The program is a classifier. The bytes, of a number that packets have, may be read, and written if the program does
    /// that, until this returns.
    #[inline]
    unsafe fn enter(&self, data: *const u8, bytes: usize, wire_bytes: u32, fields: &PacketFields) -> u32 {
        let code = std::ptr::with_exposed_provenance(self.way.code as usize);
        let (data, word) =
            (data.expose_provenance() as u64, |at| fields.0[(at - packet::FIELDS) as usize / 8]);
        let with_length = |at| word(at) & !0xffff_ffff | u64::from(wire_bytes);
        let (end, len, wire_len) = (data + bytes as u64, with_length(LEN), with_length(WIRE_LEN));
        // SAFETY: the code was made from a verified program of this kind and linked for this address, where it lives as long
        // as `self`. It gets the words that it reads, keeps the registers of `CALLEE_SAVED`, and reaches what the caller
        // promised.
        let r0 = unsafe {
            match self.way.words {
                Words::Bytes => call::classify_bytes(code, data, end),
                Words::Bare => call::classify(code, data, end, len, wire_len),
                Words::All => weir_rt_classify_fields(code, data, end, len, wire_len, &raw const fields.0),
            }
        };
        r0 as u32
    }
}
