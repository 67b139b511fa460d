//! Generates the trampoline of a function that is called through: programs run at its entry and at its return.
//!
//! For a window `push %rbp; mov %rsp,%rbp` and one session, whose entry may suppress the return:
//!
//! ```text
//! off:    …                             ; the gate is shut: to `out`, or `metered` (crate::isa::x86_64::meter)
//! out:    mov   88(%rsp),%rcx           ; run unprobed, without anything kept
//!         lea   296(%rsp),%rsp
//! window: push  %rbp; mov %rsp,%rbp     (relocated)
//!         jmp   function + 4
//! entry:  lea   -296(%rsp),%rsp         ; 272 bytes for the run, 24 to be kept
//!         mov   %rcx,88(%rsp); mov gate(%rip),%rcx; jrcxz out
//!         movzwl (%rcx),%ecx; jrcxz off
//!         movl  $0x01010101,272(%rsp)   ; which sessions want the return, a byte each
//!         movl  $0x00030001,276(%rsp)   ; one more, untimed, 24 / 8, and how deep tail calls nest
//!         …                             ; as in crate::isa::x86_64::trampoline: save, run, restore
//!         call  program
//!         mov   %eax,%ecx; jrcxz 1f; movb $0,272(%rsp)
//! 1:      mov   240(%rsp),%rcx; mov %rcx,280(%rsp)               ; the session's cookie
//!         …
//!         lea   272(%rsp),%rsp          ; what the run used is gone before the function begins
//!         call  window
//! return: lea   -272(%rsp),%rsp
//!         mov   %rcx,88(%rsp); mov gate(%rip),%rcx; jrcxz 3f
//!         movzwl (%rcx),%ecx; jrcxz off return
//!         …                             ; save
//!         movzbl 272(%rsp),%ecx; jrcxz 2f
//!         mov   280(%rsp),%rcx; mov %rcx,240(%rsp)
//!         call  program
//! 2:      …                             ; restore
//! 3:      mov   88(%rsp),%rcx
//!         lea   296(%rsp),%rsp
//!         ret                           ; to the caller: every call has its return, as the processor expects
//! metered: …                            ; the entry's programs, counted and timed; then the same call
//! off return: …                         ; the return's, where the controller lives: its entry has run
//! ```
//!
//! What is kept lies right below the return address, and its size is 8 modulo 16, so that the function finds its stack
//! aligned as ever:
//!
//! | byte | |
//! |---|---|
//! | 0 to 4 | 1: this session wants the return |
//! | 5 | 1: the entry was timed, and so is the return |
//! | 6 | bytes kept / 8 |
//! | 7 | how many trampolines wait above this one in a chain of tail calls; where the return address is replaced, how many programs want the return |
//! | 8 | the same as 0 to 4 for eleven more, where there are so many sessions (16 bytes) |
//! | behind | the cookie of each session that uses one, 8 bytes each |
//!
//! A function that may not be called with anything kept above it is entered through [`crate::isa::x86_64::replace`] instead, and
//! comes back as if it had been called.
//!
//! Where tail calls may lead from the function back to it, the entry looks at its own return address: if that is in
//! the island's trampolines, one of them waits already, and what it keeps lies right above. Beyond
//! [`TAIL_DEPTH_MAX`] of them the function is run without being called, and its return is a counted miss.

use std::ops::Range;

use weir_plan::Refusal;
use weir_plan::window::Window;
use weir_rt::executable::FRAME_SESSION_COOKIE;

use crate::isa::x86_64::emitter::{Emitter, RAX, RCX};
use crate::isa::x86_64::replace::{self, Table};
use crate::isa::x86_64::trampoline::{
    At, Call, FRAME_BYTES, FunctionCall, IP, Needs, Placement, SP, START_SLOT, Trampoline, WaysOut,
    before_program, constants, go_on, pass_gate, ways_out,
};
use crate::isa::x86_64::unwind::frames::{Caller, Frame, Row};
use crate::limits::{PROGRAMS_PER_SITE_MAX, TAIL_DEPTH_MAX};
use crate::program::When;

/// What the trampolines of one island have in common.
#[derive(Clone, Debug)]
pub struct Through {
    /// Addresses that every return point of the island lies in.
    pub trampolines: Range<u64>,
    /// Address of the counter of returns that were missed.
    pub tail_depth: u64,
    /// Tail calls may lead from the function back to it.
    pub recurs: bool,
    /// Where return addresses are replaced, if any are.
    pub table: Option<Table>,
    /// This function's is: it is entered through [`crate::isa::x86_64::replace::enter`], at this address.
    pub enter: Option<u64>,
}

/// Bytes that are kept at most, with so many sessions.
pub fn kept_bytes_max(sessions: usize) -> u32 {
    24 + 8 * sessions as u32 + 8
}

/// Byte offsets in what is kept.
const KEPT_WORDS: i32 = 6;
const DEPTH: i32 = 7;
const TIMED: i32 = 5;
const WANTS_FIRST: usize = 5;

/// Bytes that one trampoline of so many programs takes at most.
pub fn bytes_max(programs: usize) -> usize {
    2560 + replace::THUNK_BYTES_MAX + 320 * programs
}

/// Generates the trampoline of `window` that calls `calls` in order, at both ends.
pub fn generate(
    window: &Window,
    placement: Placement,
    through: &Through,
    calls: &[Call],
) -> Result<Trampoline, Refusal> {
    if calls.len() > PROGRAMS_PER_SITE_MAX {
        return Err(Refusal::TooManyPrograms { given: calls.len(), max: PROGRAMS_PER_SITE_MAX });
    }
    let generate = |waits| generate_with(window, placement, through, calls, waits);
    // Few windows are so long that there is no room for a forked child to wait.
    match generate(true)? {
        Some(trampoline) => Ok(trampoline),
        None => Ok(generate(false)?.expect("the way out is short: a window has at most 19 bytes")),
    }
}

/// None where the gate is too far from the ways out; `waits`: forked children have one of their own.
fn generate_with(
    window: &Window,
    placement: Placement,
    through: &Through,
    calls: &[Call],
    waits: bool,
) -> Result<Option<Trampoline>, Refusal> {
    let kept = Kept::of(calls);
    let frame_bytes = FRAME_BYTES + kept.bytes;
    let mut out = Emitter::new(placement.at, frame_bytes);
    let mut places = Vec::new();
    let WaysOut { metered, wiped, way_out } = ways_out(&mut out, placement, 0, waits);
    out.restore(RCX);
    out.move_stack(frame_bytes);
    let function = placement.at + out.code.len() as u64;
    go_on(&mut out, window, placement, &mut places)?;
    let too_deep = Vec::new();
    let mut generator = Generator { out, placement, through, calls, kept, function, called: 0, too_deep };
    let Some((entry, call)) = generator.entry(wiped) else { return Ok(None) };
    let mut returns = generator.returns();
    generator.metered_entry(metered, way_out, call);
    generator.deep(&mut returns);
    generator.thunk();
    generator.cold(&mut returns);
    let wanting = calls.iter().zip(&generator.kept.slots).enumerate();
    let wanting = wanting.filter(|(_, (call, _))| call.when != When::Entry);
    let calls_function = FunctionCall {
        returns_to: returns.start,
        kept_bytes: generator.kept.bytes as u32,
        wanting: wanting.map(|(number, (_, slots))| (number, slots.0.map(|at| at as u32))).collect(),
    };
    let code = generator.out.code;
    assert!(code.len() <= bytes_max(calls.len()), "{} bytes in one trampoline", code.len());
    let frame = |from: u32, to: u32, rows: Vec<Row>| Frame {
        code: placement.at + u64::from(from)..placement.at + u64::from(to),
        caller: Caller::OnStack(rows),
    };
    let frames = vec![
        frame(entry.start, returns.start, entry.rows),
        frame(returns.start, code.len() as u32, returns.rows),
    ];
    Ok(Some(Trampoline { code, entry: entry.start, places, frames, calls_function: Some(calls_function) }))
}

/// Where the things are that are kept while the function runs.
struct Kept {
    bytes: i32,
    /// Of each call: the byte that says whether a session wants the return, and its cookie.
    slots: Vec<(Option<i32>, Option<i32>)>,
}

impl Kept {
    fn of(calls: &[Call]) -> Kept {
        let is_session = |call: &&Call| call.when == When::Session;
        let sessions = calls.iter().filter(is_session).count();
        let mut bytes = if sessions > WANTS_FIRST { 24 } else { 8 };
        let mut seen = 0;
        let slots = calls.iter().map(|call| {
            if call.when != When::Session {
                return (None, None);
            }
            let wants = if seen < WANTS_FIRST { seen } else { seen - WANTS_FIRST + 8 } as i32;
            seen += 1;
            let cookie = call.uses_session.then_some(bytes);
            bytes += if call.uses_session { 8 } else { 0 };
            (Some(wants), cookie)
        });
        let slots = slots.collect();
        Kept { bytes: bytes + if bytes % 16 == 8 { 0 } else { 8 }, slots }
    }
}

/// One half of the code, and how to unwind through it.
struct Half {
    start: u32,
    rows: Vec<Row>,
}

impl Half {
    fn begin(out: &Emitter, above: i32) -> Half {
        let mut half = Half { start: out.code.len() as u32, rows: Vec::new() };
        half.row(out, above);
        half
    }

    fn row(&mut self, out: &Emitter, above: i32) {
        self.rows.push(Row { offset: out.code.len() as u32 - self.start, above_stack_pointer: above as u32 });
    }
}

struct Generator<'a> {
    out: Emitter,
    placement: Placement,
    through: &'a Through,
    calls: &'a [Call],
    kept: Kept,
    /// Address of the displaced instructions.
    function: u64,
    /// Behind the call.
    called: usize,
    /// The branches to what is done where tail calls nest too deep.
    too_deep: Vec<usize>,
}

impl Generator<'_> {
    /// With the offset from which on the function is called. None where the ways out are too far; `wiped`: where hits go whose gate is wiped.
    fn entry(&mut self, wiped: usize) -> Option<(Half, usize)> {
        let mut half = Half::begin(&self.out, 0);
        self.out.move_stack(-self.out.frame_bytes);
        half.row(&self.out, self.out.frame_bytes);
        if !pass_gate(&mut self.out, self.placement.gate, wiped) {
            return None;
        }
        self.keep(FRAME_BYTES);
        self.run_entry();
        let call = self.out.code.len();
        self.out.restore(RCX);
        self.out.move_stack(FRAME_BYTES);
        half.row(&self.out, self.kept.bytes);
        self.out.call(self.function);
        self.called = self.out.code.len();
        Some((half, call))
    }

    /// The entry of a hit that is counted, and timed where that is to be; it goes on at offset `call`, or `way_out`.
    fn metered_entry(&mut self, metered: usize, way_out: usize, call: usize) {
        let (at, metering) = (self.out.at, self.placement.metering);
        self.out.land_near(metered);
        let not = metering.begin(&mut self.out);
        self.keep(FRAME_BYTES);
        self.out.load(RCX, START_SLOT);
        let untimed = self.out.jrcxz_ahead();
        self.out.store_byte(FRAME_BYTES + TIMED, 1);
        assert!(self.out.land(untimed), "one instruction is no far way");
        self.run_entry();
        metering.finish(&mut self.out);
        self.out.jump(at + call as u64);
        self.out.land_near(not);
        self.out.jump(at + way_out as u64);
    }

    /// Programs that want the return.
    fn wanting(&self) -> u8 {
        self.calls.iter().filter(|call| call.when != When::Entry).count() as u8
    }

    /// Where return addresses are replaced, the call does not lead to the function but to what moves things out of its way.
    fn thunk(&mut self) {
        let Some(enter) = self.through.enter else { return };
        self.out.land_near(self.called);
        let at = self.out.at + self.out.code.len() as u64;
        self.out.bytes(&replace::thunk(at, self.function, enter));
    }

    fn entry_needs(&self) -> Needs {
        let needs = Needs::of(self.calls.iter().filter(|call| call.when != When::Return));
        if self.through.recurs { needs.with_flags() } else { needs }
    }

    /// What is kept from the beginning, `at` bytes above the stack pointer.
    fn keep(&mut self, at: i32) {
        const ALL: u32 = 0x0101_0101;
        let sessions = self.calls.iter().filter(|call| call.when == When::Session).count();
        if sessions > 0 {
            self.out.store_constant_short(at, ALL);
        }
        let words = (self.kept.bytes / 8) as u32;
        let weight = if self.through.enter.is_some() { u32::from(self.wanting()) } else { 0 };
        self.out.store_constant_short(at + 4, ALL & 0xff | words << 16 | weight << 24);
        for slot in [8, 12, 16].into_iter().filter(|_| sessions > WANTS_FIRST) {
            self.out.store_constant_short(at + slot, ALL);
        }
    }

    fn run_entry(&mut self) {
        let needs = &self.entry_needs();
        let sp = self.out.frame_bytes;
        needs.save(&mut self.out);
        constants(&mut self.out, needs, Some((self.placement.function, sp)));
        needs.save_flags(&mut self.out);
        if self.through.recurs {
            self.count_depth();
        }
        let calls = self.calls.iter().zip(&self.kept.slots).filter(|(call, _)| call.when != When::Return);
        for (call, &(wants, cookie)) in calls {
            let out = &mut self.out;
            before_program(out, call, At::Entry);
            if call.uses_session {
                out.store_constant(FRAME_SESSION_COOKIE as i32, 0);
            }
            out.call(call.address);
            if let Some(wants) = wants {
                out.bytes(&[0x89, 0xc1]); // mov %eax,%ecx
                let suppresses_not = out.jrcxz_ahead();
                out.store_byte(FRAME_BYTES + wants, 0);
                assert!(out.land(suppresses_not), "one instruction is no far way");
            }
            if let Some(cookie) = cookie {
                out.load(RCX, FRAME_SESSION_COOKIE as i32);
                out.store(RCX, FRAME_BYTES + cookie);
            }
        }
        if self.through.recurs {
            self.out.compare_byte(FRAME_BYTES + DEPTH, TAIL_DEPTH_MAX);
            let branch = self.out.jae_ahead();
            self.too_deep.push(branch);
        }
        needs.restore(&mut self.out);
    }

    /// How many trampolines wait right above. Uses rax, rcx and the flags.
    fn count_depth(&mut self) {
        let bytes = self.trampoline_bytes();
        let out = &mut self.out;
        let frame_bytes = out.frame_bytes;
        out.load(RCX, frame_bytes);
        out.take_rip(RAX, self.through.trampolines.start);
        out.bytes(&[0x48, 0x29, 0xc1]); // sub %rax,%rcx
        out.bytes(&[0x48, 0x81, 0xf9]); // cmp $bytes,%rcx
        out.bytes(&bytes);
        out.bytes(&[0xb9, 0, 0, 0, 0]); // mov $0,%ecx
        let none = out.jae_ahead();
        out.load_byte_rcx(frame_bytes + 8 + DEPTH);
        out.bytes(&[0xff, 0xc1]); // inc %ecx
        out.land_near(none);
        out.bytes(&[0x88, 0x8c, 0x24]); // mov %cl,depth(%rsp)
        out.bytes(&(FRAME_BYTES + DEPTH).to_le_bytes());
    }

    fn trampoline_bytes(&self) -> [u8; 4] {
        let bytes = self.through.trampolines.end - self.through.trampolines.start;
        i32::try_from(bytes).expect("an island lies within reach of its own ends").to_le_bytes()
    }

    fn returns(&mut self) -> Half {
        let mut half = Half::begin(&self.out, self.kept.bytes);
        self.out.move_stack(-FRAME_BYTES);
        half.row(&self.out, self.out.frame_bytes);
        self.out.save(RCX);
        self.out.load_rip_rcx(self.placement.gate);
        let closed = self.out.jrcxz_ahead();
        self.out.load_half_rcx();
        let shut = self.out.jrcxz_ahead();
        let from = self.out.code.len();
        self.run_return();
        let mut way_out = self.leave(&mut half);
        let is_near = self.out.land(shut);
        if !is_near || !self.out.land_at(closed, way_out) {
            // Too long for one branch: they are led around.
            self.out.truncate(from);
            half.rows.pop();
            let run = self.out.jump_short_ahead();
            assert!(self.out.land(closed), "a jump is no far way");
            let closed = self.out.jump_ahead();
            assert!(self.out.land(shut), "two jumps are no far way");
            let shut = self.out.jump_ahead();
            assert!(self.out.land(run), "two jumps are no far way");
            self.run_return();
            self.out.land_near(closed);
            way_out = self.leave(&mut half);
            self.out.land_near(shut);
        }
        half.row(&self.out, self.out.frame_bytes);
        self.off_return(way_out);
        half
    }

    /// Back to the caller; its offset.
    fn leave(&mut self, half: &mut Half) -> usize {
        let at = self.out.code.len();
        self.out.restore(RCX);
        self.out.move_stack(self.out.frame_bytes);
        half.row(&self.out, 0);
        self.out.bytes(&[0xc3]);
        at
    }

    /// The return where the gate is shut: as long as the controller lives, what has run at the entry has its return.
    fn off_return(&mut self, way_out: usize) {
        let (at, metering) = (self.out.at, self.placement.metering);
        let (gone, lives) = metering.off(&mut self.out);
        assert!(self.out.land(gone), "one instruction is no far way");
        self.out.jump(at + way_out as u64);
        self.out.land_near(lives);
        self.out.load_byte_rcx(FRAME_BYTES + TIMED);
        self.out.store(RCX, START_SLOT);
        let not = metering.begin_return(&mut self.out);
        self.run_return();
        metering.finish_return(&mut self.out);
        self.out.land_near(not);
        self.out.jump(at + way_out as u64);
    }

    fn run_return(&mut self) {
        let needs = Needs::of(self.calls.iter().filter(|call| call.when != When::Entry));
        let finds_caller = needs.is_read(IP) || needs.is_read(SP);
        let needs = if finds_caller { needs.with_flags() } else { needs };
        needs.save(&mut self.out);
        constants(&mut self.out, &needs, None);
        needs.save_flags(&mut self.out);
        if finds_caller {
            self.find_caller();
        }
        let calls = self.calls.iter().zip(&self.kept.slots).filter(|(call, _)| call.when != When::Entry);
        for (call, &(wants, cookie)) in calls {
            let out = &mut self.out;
            let suppressed = wants.map(|wants| {
                out.load_byte_rcx(FRAME_BYTES + wants);
                out.jrcxz_ahead()
            });
            before_program(out, call, At::Return);
            match cookie {
                Some(cookie) => {
                    out.load(RCX, FRAME_BYTES + cookie);
                    out.store(RCX, FRAME_SESSION_COOKIE as i32);
                }
                None if call.uses_session => out.store_constant(FRAME_SESSION_COOKIE as i32, 0),
                None => {}
            }
            out.call(call.address);
            let is_near = suppressed.is_none_or(|suppressed| out.land(suppressed));
            assert!(is_near, "what stands around one call is short");
        }
        needs.restore(&mut self.out);
    }

    /// Where the caller goes on, and its stack pointer there: behind all trampolines that tail calls have made wait.
    fn find_caller(&mut self) {
        let bytes = self.trampoline_bytes();
        let frame_bytes = self.out.frame_bytes;
        self.out.address_rax(frame_bytes);
        let out = &mut self.out;
        let again = out.code.len();
        out.bytes(&[0x48, 0x8b, 0x08]); // mov (%rax),%rcx
        out.store(RCX, IP);
        out.bytes(&[0x48, 0x83, 0xc0, 8]); // add $8,%rax
        out.take_rip(RCX, self.through.trampolines.start);
        out.bytes(&[0x48, 0x2b, 0x8c, 0x24]); // sub ip(%rsp),%rcx
        out.bytes(&IP.to_le_bytes());
        out.bytes(&[0x48, 0xf7, 0xd9]); // neg %rcx
        out.bytes(&[0x48, 0x81, 0xf9]); // cmp $bytes,%rcx
        out.bytes(&bytes);
        let found = out.jae_ahead();
        out.bytes(&[0x0f, 0xb6, 0x48, KEPT_WORDS as u8]); // movzbl KEPT_WORDS(%rax),%ecx
        out.bytes(&[0x48, 0x8d, 0x04, 0xc8]); // lea (%rax,%rcx,8),%rax
        let back = again as i64 - (out.code.len() as i64 + 2);
        out.bytes(&[0xeb, i8::try_from(back).expect("a short loop") as u8]);
        out.land_near(found);
        out.store(RAX, SP);
        if let Some(table) = &self.through.table {
            replace::find_return(out, table, IP);
        }
    }

    /// What was put off, of either half: the stack pointer is lowered there.
    fn cold(&mut self, half: &mut Half) {
        if self.out.has_cold() {
            half.row(&self.out, self.out.frame_bytes);
            self.out.cold();
        }
    }

    /// The function is run without being called, and its return is missed.
    fn deep(&mut self, half: &mut Half) {
        if self.too_deep.is_empty() {
            return;
        }
        for &from in &self.too_deep {
            self.out.land_near(from);
        }
        self.out.movabs_rcx(self.through.tail_depth);
        self.out.bytes(&[0xf0, 0x48, 0x83, 0x01, self.wanting()]); // lock addq $n,(%rcx)
        self.entry_needs().restore(&mut self.out);
        self.out.restore(RCX);
        self.out.move_stack(self.out.frame_bytes);
        half.row(&self.out, 0);
        self.out.jump(self.function);
    }
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};

    use super::*;
    use crate::isa::x86_64::meter::Metering;
    use weir_plan::body;
    use weir_plan::window::{FunctionCode, plan};

    const AT: u64 = 0x7f00_0010_0000;

    fn call(when: When, clobbers_flags: bool, context_reads: u32) -> Call {
        Call {
            address: AT + 0x10000,
            cookie: 7,
            clobbers: 1,
            clobbers_flags,
            may_misalign: clobbers_flags,
            context_reads,
            reads_cookie: true,
            uses_session: true,
            walks_stack: true,
            when,
        }
    }

    /// The instructions of a trampoline, the bytes that it keeps, and how many rows its descriptions have.
    fn check(calls: &[Call], recurs: bool) -> (Vec<Instruction>, i32, usize) {
        // push %rbp; mov %rsp,%rbp; sub $16,%rsp; ret
        let bytes = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0xc3];
        let code = FunctionCode::at_entry(0x1000, &bytes, &[]);
        let window = plan(code, &body::read(0x1000, &bytes)).unwrap();
        let metering = Metering { lease: 0x1234_5678_92c0, meter: 0x1234_5678_a000, routines: AT + 0x18000 };
        let (bias, gate) = (0x7f00_0000_0000, AT + 0x20000);
        let placement =
            Placement { at: AT, bias, gate, metering, forked: AT + 0x19000, hit: AT, function: AT };
        let through = Through {
            trampolines: AT..AT + 0x20000,
            tail_depth: 0x1234_5678_9abc,
            recurs,
            table: None,
            enter: None,
        };
        let trampoline = generate(&window, placement, &through, calls).unwrap();
        let instructions: Vec<Instruction> =
            Decoder::with_ip(64, &trampoline.code, AT, DecoderOptions::NONE).iter().collect();
        assert!(!instructions.iter().any(Instruction::is_invalid));
        let rows = trampoline.frames.iter().map(|frame| match &frame.caller {
            Caller::OnStack(rows) => rows.len(),
            Caller::InRecord { .. } => 0,
        });
        (instructions, Kept::of(calls).bytes, rows.max().unwrap())
    }

    #[test]
    fn what_is_kept_leaves_the_stack_aligned() {
        for sessions in 0..=PROGRAMS_PER_SITE_MAX {
            let calls: Vec<Call> = (0..sessions.max(1))
                .map(|n| call(if n < sessions { When::Session } else { When::Return }, true, 0x1fff_ffff))
                .collect();
            for recurs in [false, true] {
                let (_, kept, rows) = check(&calls, recurs);
                assert_eq!(kept % 16, 8, "{sessions} sessions");
                let words = if sessions > WANTS_FIRST { 3 } else { 1 } + sessions as i32;
                assert!((8 * words..8 * words + 16).contains(&kept), "{sessions} sessions: {kept}");
                assert!(rows <= 7, "a description has room for seven rows, not {rows}");
            }
        }
        assert_eq!(check(&[call(When::Return, false, 0)], false).1, 8);
        assert_eq!(check(&[call(When::Session, false, 0)], false).1, 24);
    }

    #[test]
    fn no_flag_is_touched_where_no_program_does() {
        let (instructions, ..) = check(&[call(When::Session, false, 0)], false);
        let window = Mnemonic::Sub;
        let touching = instructions.iter().find(|i| i.rflags_modified() != 0 && i.mnemonic() != window);
        assert!(touching.is_none(), "{touching:?}");
    }

    #[test]
    fn every_call_of_the_function_has_its_return() {
        let (instructions, ..) = check(&[call(When::Session, true, 0)], true);
        let count = |mnemonic| instructions.iter().filter(|i| i.mnemonic() == mnemonic).count();
        // The program twice and the function once; one way back to the caller. Metered, the program twice more, with what
        // counts and times before and behind it. One for forked children.
        assert_eq!((count(Mnemonic::Call), count(Mnemonic::Ret)), (3 + 2 + 4 + 1, 1));
    }
}
