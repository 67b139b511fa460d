//! Runs verified programs faster, without a check: operations made once, each of which jumps to the next.
//!
//! In: a [`VerifiedProgram`] and its maps. Out: a [`Threaded`], which may be run many times, by several threads. It is
//! for places without machine code, and beats an interpreter that decodes as it goes. The loop itself is C
//! (`c/threaded.c`, which says why); `decode` makes its operations, and `texts` those that ask about texts.
//!
//! Per-CPU values are those of the shared lane, as in the checking interpreter, which is this one's slow twin and runs
//! what has no operation here: tail calls, functions about sessions, frames that are to be zeroed, and programs on lanes that
//! runs claim.

mod decode;
mod texts;

use std::ffi::{CStr, c_char};
use std::ops::Deref;
use std::sync::OnceLock;

use weir_ebpf::ProgramKind;
use weir_ebpf::context::memory;
use weir_memory::{ContextMut, classifier_frame};
use weir_rt::executable::Frame;
use weir_rt::limits::LENT_BYTES_MAX;
use weir_rt::segment::Segment;
use weir_verifier::VerifiedProgram;

use self::texts::Text;
use crate::limits::{CALL_DEPTH_MAX, MAY_GOTO_ROUNDS_MAX};

/// A verified program on the maps of one segment, ready to run. `S`: what keeps the segment, a reference or an `Arc`.
#[derive(Debug)]
pub struct Threaded<S> {
    kind: ProgramKind,
    writes_packet: bool,
    ops: Vec<Op>,
    /// The operations hold addresses in these and in the segment.
    texts: Box<[Text]>,
    _segment: S,
}

/// `struct op` of c/threaded.c.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Op {
    go: usize,
    imm: u64,
    jump: i32,
    dst: u8,
    src: u8,
    zero: u16,
}

const _: () = assert!(size_of::<Op>() == 24 && CALL_DEPTH_MAX == 8, "c/threaded.c");

impl<S: Deref<Target = Segment>> Threaded<S> {
    /// None if the program has an instruction that this interpreter has not, or the segment other maps or lanes that
    /// runs claim.
    pub fn of(program: &VerifiedProgram, segment: S) -> Option<Threaded<S>> {
        let specs = segment.layout().maps.iter().map(|map| &map.spec);
        if !specs.eq(program.maps())
            || program.needs_lane()
            || program.zeroes_frames()
            || segment.layout().claim_lanes > 0
        {
            return None;
        }
        let mut ops = decode::decode(program, &segment)?;
        let texts = texts::texts(program, &mut ops);
        Some(Threaded {
            kind: program.kind(),
            writes_packet: program.writes_packet(),
            ops,
            texts,
            _segment: segment,
        })
    }

    /// Bytes of memory that it takes beside the segment.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.ops[..]) + size_of_val(&self.texts[..])
    }

    /// Runs it with a `Frame` or a `Context`; the answer is r0.
    ///
    /// # Panics
    /// If the context is of another kind than the program.
    pub fn run<'c>(&self, context: impl Into<ContextMut<'c>>) -> u64 {
        let mut context: ContextMut<'c> = context.into();
        assert!(context.fits(self.kind), "a program of kind {} given {:?}", self.kind, context.kind());
        // SAFETY: the frame lives as long as `context`, which is of the program's kind.
        unsafe { self.run_at(context.frame_pointer()) }
    }

    /// Runs a classifier on a packet where it lies, of which `bytes` were captured and `wire_bytes` were on the wire; the lower
    /// half of r0. What else its context has is 0.
    ///
    /// # Panics
    /// If the program is no classifier or may write to its packet, or if there are more than `LENT_BYTES_MAX` bytes.
    pub fn classify(&self, bytes: &[u8], wire_bytes: u32) -> u32 {
        assert!(self.kind == ProgramKind::Classifier, "a program of kind {} is no classifier", self.kind);
        assert!(!self.writes_packet, "the program may write to its packet, which is lent for reading");
        assert!(
            bytes.len() <= LENT_BYTES_MAX as usize,
            "{} bytes; the limit is {LENT_BYTES_MAX}",
            bytes.len()
        );
        let address = bytes.as_ptr().expose_provenance() as u64;
        let mut frame = classifier_frame(address, bytes.len(), wire_bytes);
        // SAFETY: the frame is a classifier's, its bytes may be read until this returns, and the program writes to none.
        unsafe { self.run_at(&mut frame) as u32 }
    }

    /// The same as [`run`](Threaded::run) with addresses of the caller's in the frame, as [`frame`](weir_memory::frame) makes it.
    ///
    /// # Safety
    /// The memory that the frame names, of the kind of this program, may be read and written until this returns, and
    /// nobody who minds races uses it meanwhile.
    pub unsafe fn run_frame(&self, frame: &mut Frame) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { self.run_at(frame) }
    }

    /// # Safety
    /// As for [`run_frame`](Threaded::run_frame).
    unsafe fn run_at(&self, frame: *mut Frame) -> u64 {
        let (r1, r2) = match self.kind {
            // SAFETY: the caller's promise.
            ProgramKind::Memory { .. } => unsafe {
                ((*frame).regs[memory::ADDRESS as usize / 8], (*frame).regs[memory::BYTES as usize / 8])
            },
            _ => (frame as u64, 0),
        };
        // SAFETY: the operations were made of a verified program, whose proof is that it touches its stack, its context
        // and its maps alone; the frame is of its kind, and the segment outlives `self`.
        unsafe { weir_interp_threaded(self.ops.as_ptr(), r1, r2, MAY_GOTO_ROUNDS_MAX, std::ptr::null_mut()) }
    }
}

unsafe extern "C" {
    fn weir_interp_threaded(
        op: *const Op,
        r1: u64,
        r2: u64,
        rounds: u32,
        addresses: *mut *const usize,
    ) -> u64;
    static weir_interp_names: [*const c_char; 0];
}

/// Name and address of each operation's code.
fn operations() -> &'static [(&'static str, usize)] {
    static OPERATIONS: OnceLock<Vec<(&'static str, usize)>> = OnceLock::new();
    OPERATIONS.get_or_init(|| {
        let mut addresses: *const usize = std::ptr::null();
        // SAFETY: without an operation it stores the address of its table, and answers how many entries that has.
        let count = unsafe { weir_interp_threaded(std::ptr::null(), 0, 0, 0, &mut addresses) };
        let named = (0..count as usize).map(|index| {
            // SAFETY: both tables are made of one list in C, and live for ever.
            unsafe {
                let name = CStr::from_ptr(*(&raw const weir_interp_names).cast::<*const c_char>().add(index));
                (name.to_str().unwrap_or_default(), *addresses.add(index))
            }
        });
        let mut named: Vec<_> = named.collect();
        named.sort_unstable();
        named
    })
}

/// Address of the code of the operation with this name.
fn go(name: &str) -> usize {
    let operations = operations();
    let found = operations.binary_search_by_key(&name, |(name, _)| name);
    // SANITY: the names that `decode` makes are those of C; a test decodes every instruction.
    operations[found.unwrap_or_else(|_| panic!("no operation is called {name}"))].1
}
