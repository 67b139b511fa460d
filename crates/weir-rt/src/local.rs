//! Runs machine code in this process: BEGIN, END and interval programs, and the tests of the JIT.
//!
//! One mapping holds the code, an image of the runtime and the descriptors, as an island in a target does, so that
//! every call is near. It is written first and made executable then, never both.

use std::arch::global_asm;
use std::ffi::CStr;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use memmap2::{Mmap, MmapMut};

use weir_ebpf::ProgramKind;

use crate::context::ContextMut;
use crate::executable::{Executable, Frame, Symbol};
use crate::link::link;
use crate::runtime::{RuntimeImage, image, linked};
use crate::segment::{Mapping, Segment};

/// A program linked into this process. It may be run by several threads at once.
#[derive(Debug)]
pub struct LocalProgram {
    kind: ProgramKind,
    code: Mmap,
    /// The code holds addresses in it.
    _segment: Arc<Mapping>,
}

impl LocalProgram {
    /// Links `executable` against `segment` and the runtime.
    ///
    /// # Errors
    /// Of mmap or mprotect; `InvalidInput` with the [`LinkError`](crate::LinkError) as its source, or if the program
    /// was compiled for other lanes than the segment has.
    pub fn load(executable: &Executable, segment: &Segment) -> io::Result<Self> {
        if !segment.suits(executable) {
            let message = format!("{}: compiled for lanes that the segment does not have", executable.name);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let image = image();
        let image_offset = executable.code.len().next_multiple_of(RuntimeImage::ALIGN as usize);
        let descriptors_offset = (image_offset + image.bytes.len()).next_multiple_of(64);
        let descriptors = segment.descriptors(segment.base());
        let mut mapping = MmapMut::map_anon(descriptors_offset + descriptors.len().max(1))?;
        let base = mapping.as_ptr() as u64;
        let resolve = |symbol| match symbol {
            Symbol::Helper(id) => Some(base + image_offset as u64 + u64::from(image.helper(id)?)),
            Symbol::Runtime(function) => {
                Some(base + image_offset as u64 + u64::from(image.function(function)))
            }
            symbol => segment.resolve(segment.base(), base + descriptors_offset as u64, symbol),
        };
        let code = link(executable, base, &resolve)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let island = linked::local_island(segment.base()).to_bytes();
        let island_offset = image_offset + image.island_offset as usize;
        mapping[..code.len()].copy_from_slice(&code);
        mapping[image_offset..image_offset + image.bytes.len()].copy_from_slice(image.bytes);
        mapping[island_offset..island_offset + island.len()].copy_from_slice(&island);
        mapping[descriptors_offset..descriptors_offset + descriptors.len()].copy_from_slice(&descriptors);
        Ok(LocalProgram {
            kind: executable.kind,
            code: mapping.make_exec()?,
            _segment: Arc::clone(segment.mapping()),
        })
    }

    /// Calls the program with a frame above its return address; the answer is r0. What the program writes into its
    /// context is copied back.
    ///
    /// # Panics
    /// If the context is of another kind than the program.
    pub fn run<'c>(&self, context: impl Into<ContextMut<'c>>) -> u64 {
        let context: ContextMut<'c> = context.into();
        assert!(context.fits(self.kind), "a program of kind {} given {:?}", self.kind, context.kind());
        // SAFETY: the code was made from a verified program and linked for this address; the thunk gives it the frame
        // it asks for, whose addresses the context keeps alive, and saves every register it may change.
        unsafe { weir_rt_call_program(self.code.as_ptr(), context.frame) }
    }

    /// The same with addresses of the caller's in the frame, as [`frame`](crate::context::frame) makes it.
    ///
    /// # Safety
    /// The memory that the frame names, of the kind of this program, may be read and written until this returns, and
    /// nobody who minds races uses it meanwhile.
    pub unsafe fn run_frame(&self, frame: &mut Frame) -> u64 {
        // SAFETY: as for `run`; that the addresses are alive is the caller's promise.
        unsafe { weir_rt_call_program(self.code.as_ptr(), frame) }
    }

    /// Address of the code in this process.
    pub fn address(&self) -> u64 {
        self.code.as_ptr() as u64
    }
}

/// Where a thread of this process finds its `struct rseq`, from its thread pointer; `None` where the C library registers
/// none. For [`LanePolicy::Claimed`](crate::LanePolicy::Claimed): a thread reads the number of its CPU there.
pub fn rseq_offset() -> Option<i32> {
    let variable = |name: &CStr| {
        // SAFETY: looks a name up among what is loaded.
        let at = unsafe { nix::libc::dlsym(nix::libc::RTLD_DEFAULT, name.as_ptr()) };
        NonNull::new(at)
    };
    // SAFETY: variables of glibc 2.35 and later, of these types, which it writes before `main` and never again.
    unsafe {
        let size = variable(c"__rseq_size")?.cast::<u32>().read();
        let offset = variable(c"__rseq_offset")?.cast::<isize>().read();
        i32::try_from(offset).ok().filter(|_| size > 0)
    }
}

unsafe extern "C" {
    fn weir_rt_call_program(code: *const u8, frame: *mut Frame) -> u64;
}

/// Words of a [`Frame`] that the thunk copies.
const FRAME_WORDS: usize = size_of::<Frame>() / 8;

const _: () = assert!(FRAME_WORDS.is_multiple_of(2), "the thunk keeps the stack aligned to 16 bytes");

// A program may change any register that it names in `clobbers`, so every callee-saved one is saved here. Nothing
// but rsp is relied on after the call.
global_asm!(
    ".pushsection .text",
    ".p2align 4",
    ".globl weir_rt_call_program",
    ".hidden weir_rt_call_program",
    ".type weir_rt_call_program, @function",
    "weir_rt_call_program:",
    "push rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "push rsi",
    "sub rsp, {frame_bytes}",
    "xor ecx, ecx",
    "2: mov rax, [rsi + rcx * 8]",
    "mov [rsp + rcx * 8], rax",
    "inc ecx",
    "cmp ecx, {frame_words}",
    "jb 2b",
    "call rdi",
    "mov rsi, [rsp + {frame_bytes}]",
    "xor ecx, ecx",
    "3: mov rdx, [rsp + rcx * 8]",
    "mov [rsi + rcx * 8], rdx",
    "inc ecx",
    "cmp ecx, {frame_words}",
    "jb 3b",
    "add rsp, {frame_bytes} + 8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
    ".size weir_rt_call_program, . - weir_rt_call_program",
    ".popsection",
    frame_bytes = const size_of::<Frame>(),
    frame_words = const FRAME_WORDS,
);
