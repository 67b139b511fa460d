//! Generates what the hits of a site pass through whose gate is not open: counted, timed, one of so many, or none.
//!
//! In: the address of the site's meter (docs/segment.md). Out: routines that one island's trampolines call, the same at
//! every address. A trampoline has its programs' code twice, since between saving and restoring nothing may be asked that the
//! armed path would pay for:
//!
//! ```text
//! entry:  mov   gate(%rip),%rcx
//!         jrcxz out                     ; wiped in a fork child, not written yet: unprobed
//!         movzwl (%rcx),%ecx            ; the lease, or a word that is always 0
//!         jrcxz off
//!         …                             ; armed: nothing else
//!
//! off:    movabs $lease,%rcx; movzwl (%rcx),%ecx
//!         jrcxz out                     ; the controller is gone: unprobed
//!         jmp   metered
//! metered: movabs $meter,%rcx
//!         call  begin                   ; whether this hit runs, and when it began if it is timed
//!         jrcxz 1f                      ; it does not
//!         …                             ; the programs once more
//!         movabs $meter,%rcx
//!         call  finish
//! 1:      jmp   out
//! ```
//!
//! | routine | in | out |
//! |---|---|---|
//! | `begin` | rcx: the meter | rcx: 0 if the hit is not to run; `START` of the frame: ticks, or 0 if it is not timed |
//! | `begin_return` | rcx: the meter; `START`: not 0 if the entry was timed | the same |
//! | `finish`, `finish_return` | rcx: the meter; `START` | the ticks since are added, and the former's hit is counted as timed |
//!
//! In strict seccomp the time stamp counter may not be read: hits run there, are counted, and are not timed. Each routine asks the
//! word that says so ([`Filter`]) before it reads the counter.
//!
//! No register but rcx is changed, and no flag. Hits that run are counted before they do, so that a meter's `hits` and
//! `missed` are the calls that came here, also where the ways of running change meanwhile.

use std::arch::asm;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use iced_x86::IcedError;
use iced_x86::code_asm::{
    CodeAssembler, CodeLabel, al, dword_ptr, eax, ecx, edx, ptr, qword_ptr, rax, rcx, rdx, rsp,
};
use memmap2::MmapOptions;
use weir_rt::abi::meter::{HITS, HOW, TAKEN, TICKS, TIMED, TURNS, UNTIL};
use weir_rt::segment::Filter;

use crate::isa::x86_64::emitter::Emitter;
use crate::isa::x86_64::trampoline::START_SLOT;

/// Where the routines of one island stand, and what the trampolines of its target look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metering {
    /// Address of the word that is not 0 in its low half while the controller lives.
    pub lease: u64,
    /// Address of the meter of the site.
    pub meter: u64,
    /// Address of the routines.
    pub routines: u64,
}

/// 8-byte words of a meter.
const METER_WORDS: usize = 8;

/// Bytes of the routines at most.
pub const ROUTINES_BYTES_MAX: usize = 640;

/// The routines, for any address. `filter`: the address of the word that says whether the target may read the time stamp counter;
/// where it may never, or nobody sets the word, nothing is timed.
pub fn routines(filter: Option<u64>) -> Vec<u8> {
    let code = assemble(filter).expect("the routines can be encoded");
    assert!(code.len() <= ROUTINES_BYTES_MAX, "{} bytes", code.len());
    code
}

/// Each routine begins a multiple of this behind the one before.
const ROUTINE_BYTES: usize = 160;

/// One of the routines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Routine {
    Begin,
    Finish,
    BeginReturn,
    FinishReturn,
}

const ROUTINES: [Routine; 4] = [Routine::Begin, Routine::Finish, Routine::BeginReturn, Routine::FinishReturn];

impl Metering {
    /// Where a hit goes whose gate is shut: to `out`, an offset, if the controller is gone, else to what [`Emitter::land_near`]
    /// lands.
    pub fn off(&self, out: &mut Emitter) -> (usize, usize) {
        out.movabs_rcx(self.lease);
        out.load_half_rcx();
        let gone = out.jrcxz_ahead();
        (gone, out.jump_ahead())
    }

    /// Whether the entry runs; the branch for where it does not.
    pub fn begin(&self, out: &mut Emitter) -> usize {
        self.ask(out, Routine::Begin)
    }

    /// The same for the return, where `START` says whether the entry was timed.
    pub fn begin_return(&self, out: &mut Emitter) -> usize {
        self.ask(out, Routine::BeginReturn)
    }

    pub fn finish(&self, out: &mut Emitter) {
        self.call(out, Routine::Finish);
    }

    pub fn finish_return(&self, out: &mut Emitter) {
        self.call(out, Routine::FinishReturn);
    }

    fn ask(&self, out: &mut Emitter, routine: Routine) -> usize {
        self.call(out, routine);
        let not = out.jrcxz_ahead();
        let runs = out.jump_short_ahead();
        assert!(out.land(not), "one instruction is no far way");
        let not = out.jump_ahead();
        assert!(out.land(runs), "one instruction is no far way");
        not
    }

    fn call(&self, out: &mut Emitter, routine: Routine) {
        out.movabs_rcx(self.meter);
        out.call(self.routines + (routine as usize * ROUTINE_BYTES) as u64);
    }
}

/// Bytes that a routine takes of the stack, besides its return address.
const SAVED: i32 = 24;
/// The frame's slot, as a routine sees it.
const START: i32 = START_SLOT + SAVED + 8;

/// Runs the routines around nothing: the ticks that they count for one hit, the least of some averages. None where the kernel gives no memory for
/// code. The process must be one that may read the counter.
pub fn ticks_of_nothing() -> Option<u64> {
    const HITS_EACH: u64 = 64;
    const AVERAGES: usize = 64;
    let filter = AtomicU32::new(0);
    let code = routines(Some(filter.as_ptr() as u64));
    let mut memory = MmapOptions::new().len(code.len()).map_anon().ok()?;
    memory.copy_from_slice(&code);
    let memory = memory.make_exec().ok()?;
    let address = |routine: Routine| memory.as_ptr() as u64 + (routine as usize * ROUTINE_BYTES) as u64;
    let (begin, finish) = (address(Routine::Begin), address(Routine::Finish));
    let average = |_| {
        let words: [AtomicU64; METER_WORDS] = Default::default();
        words[HOW / 8].store(1, Relaxed);
        words[UNTIL / 8].store(u64::MAX, Relaxed);
        for _ in 0..HITS_EACH {
            // SAFETY: the routines change rcx alone, and of memory the meter and the frame's slot, which is below the stack pointer of this function
            // and above that of the calls.
            unsafe {
                asm!(
                    "sub rsp, {frame}",
                    "mov rcx, {meter}",
                    "call {begin}",
                    "mov rcx, {meter}",
                    "call {finish}",
                    "add rsp, {frame}",
                    frame = const (START_SLOT + 8 + 15) & !15,
                    meter = in(reg) words.as_ptr(),
                    begin = in(reg) begin,
                    finish = in(reg) finish,
                    out("rcx") _,
                );
            }
        }
        words[TICKS / 8].load(Relaxed) / words[TIMED / 8].load(Relaxed).max(1)
    };
    (0..AVERAGES).map(average).min()
}

fn assemble(filter: Option<u64>) -> Result<Vec<u8>, IcedError> {
    let mut code = Vec::new();
    for (number, routine) in ROUTINES.into_iter().enumerate() {
        code.resize(number * ROUTINE_BYTES, 0xcc);
        code.extend(assemble_one(routine, filter)?);
        assert!(code.len() <= (number + 1) * ROUTINE_BYTES, "{routine:?} is too long");
    }
    Ok(code)
}

fn assemble_one(routine: Routine, filter: Option<u64>) -> Result<Vec<u8>, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    let mut out = a.create_label();
    a.lea(rsp, ptr(rsp - SAVED))?;
    a.mov(qword_ptr(rsp), rax)?;
    a.lahf()?;
    a.seto(al)?;
    a.mov(qword_ptr(rsp + 8), rax)?;
    a.mov(qword_ptr(rsp + 16), rdx)?;
    match routine {
        Routine::Begin => assemble_begin(&mut a, filter, out)?,
        Routine::BeginReturn => assemble_begin_return(&mut a, filter, out)?,
        Routine::Finish => assemble_finish(&mut a, true, filter, out)?,
        Routine::FinishReturn => assemble_finish(&mut a, false, filter, out)?,
    }
    a.set_label(&mut out)?;
    a.mov(rdx, qword_ptr(rsp + 16))?;
    a.mov(rax, qword_ptr(rsp + 8))?;
    a.add(al, 127)?;
    a.sahf()?;
    a.mov(rax, qword_ptr(rsp))?;
    a.lea(rsp, ptr(rsp + SAVED))?;
    a.ret()?;
    a.assemble(0)
}

fn assemble_begin(a: &mut CodeAssembler, filter: Option<u64>, out: CodeLabel) -> Result<(), IcedError> {
    let (mut one_of, mut timed, store, not) =
        (a.create_label(), a.create_label(), a.create_label(), a.create_label());
    a.mov(edx, dword_ptr(rcx + HOW))?;
    a.dec(edx)?;
    a.js(not)?; // closed, or held back
    a.jnz(one_of)?;
    a.mov(eax, 1)?;
    a.lock().xadd(qword_ptr(rcx + HITS), rax)?;
    a.cmp(rax, qword_ptr(rcx + UNTIL))?;
    a.jb(timed)?;
    a.xor(eax, eax)?;
    a.jmp(store)?;
    a.set_label(&mut one_of)?;
    a.mov(eax, 1)?;
    a.lock().xadd(qword_ptr(rcx + TURNS), rax)?;
    a.test(eax, edx)?;
    a.jnz(not)?;
    a.lock().inc(qword_ptr(rcx + HITS))?;
    a.lock().inc(qword_ptr(rcx + TAKEN))?;
    a.set_label(&mut timed)?;
    begin_time(a, filter, [store, not, out])
}

fn assemble_begin_return(
    a: &mut CodeAssembler,
    filter: Option<u64>,
    out: CodeLabel,
) -> Result<(), IcedError> {
    let (store, not) = (a.create_label(), a.create_label());
    a.cmp(dword_ptr(rcx + HOW), 0)?;
    a.je(not)?;
    a.cmp(qword_ptr(rsp + START), 0)?;
    a.je(out)?;
    begin_time(a, filter, [store, not, out])
}

/// Notes when the hit began, and leaves; at `not` it is not timed.
fn begin_time(
    a: &mut CodeAssembler,
    filter: Option<u64>,
    [mut store, mut not, out]: [CodeLabel; 3],
) -> Result<(), IcedError> {
    ticks(a, filter, store)?;
    a.set_label(&mut store)?;
    a.mov(qword_ptr(rsp + START), rax)?;
    a.jmp(out)?;
    a.set_label(&mut not)?;
    a.xor(ecx, ecx)
}

fn assemble_finish(
    a: &mut CodeAssembler,
    counts: bool,
    filter: Option<u64>,
    out: CodeLabel,
) -> Result<(), IcedError> {
    let mut later = a.create_label();
    a.cmp(qword_ptr(rsp + START), 0)?;
    a.je(out)?;
    ticks(a, filter, out)?;
    a.sub(rax, qword_ptr(rsp + START))?;
    a.jae(later)?;
    a.xor(eax, eax)?; // on another CPU, whose counter is behind
    a.set_label(&mut later)?;
    a.lock().add(qword_ptr(rcx + TICKS), rax)?;
    if counts {
        a.lock().inc(qword_ptr(rcx + TIMED))?;
    }
    Ok(())
}

/// The time stamp counter in rax; where it may not be read, 0, and on to `not`. Uses rdx.
fn ticks(a: &mut CodeAssembler, filter: Option<u64>, not: CodeLabel) -> Result<(), IcedError> {
    a.xor(eax, eax)?;
    let Some(filter) = filter else { return a.jmp(not) };
    a.mov(rdx, filter)?;
    a.cmp(dword_ptr(rdx), Filter::STRICT)?;
    a.je(not)?;
    a.rdtsc()?;
    a.shl(rdx, 32)?;
    a.or(rax, rdx)
}
