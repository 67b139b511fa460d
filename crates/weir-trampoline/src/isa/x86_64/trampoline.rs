//! Generates the code between a patched function and the programs that watch it.
//!
//! For a window `push %rbp; mov %rsp,%rbp; sub $16,%rsp` and one program that uses rax and flags:
//!
//! ```text
//! off:    …                             ; the gate is shut: to `out`, or `metered` (crate::isa::x86_64::meter)
//! child:  …                             ; the gate is wiped: the fork child may wait to be probed (crate::isa::x86_64::forked)
//! out:    mov   88(%rsp),%rcx           ; run unprobed (fork child, the controller is gone, this hit is left out)
//!         lea   272(%rsp),%rsp
//!         push  %rbp; mov %rsp,%rbp; sub $16,%rsp      (relocated)
//!         jmp   function + 8
//! entry:  lea   -272(%rsp),%rsp         ; room for a Frame; lea and mov leave the flags alone
//!         mov   %rcx,88(%rsp)
//!         mov   gate(%rip),%rcx
//!         jrcxz child
//!         movzwl (%rcx),%ecx
//!         jrcxz off
//!         mov   %rax,80(%rsp)           ; what the programs clobber or read of pt_regs
//!         lahf; seto %al
//!         mov   %rax,256(%rsp)          ; flags, 1.2 ns; pushfq and popfq would take 3.3
//!         call  program
//!         mov   256(%rsp),%rax
//!         add   $127,%al; sahf
//!         mov   80(%rsp),%rax
//!         mov   88(%rsp),%rcx
//!         lea   272(%rsp),%rsp
//!         push  %rbp; mov %rsp,%rbp; sub $16,%rsp      (relocated, once more: saves a jump)
//!         jmp   function + 8
//! metered: …                            ; the same programs, counted and timed (crate::isa::x86_64::meter); then `out`
//! ```
//!
//! Programs that may access words at odd addresses have a few instructions more around them ([`alignment`]).
//!
//! Nothing below the stack pointer is live at a function's entry, so the red zone is not skipped there; inside a
//! function it is, by 128 bytes more for the frame. The direction
//! flag and vector state are not touched: programs use neither. Where one reads a floating-point argument, its register is
//! stored beside the others (`movq %xmm0,168(%rsp)`), and stays as it is.

use iced_x86::Instruction;
use weir_plan::Refusal;
use weir_plan::window::{Shape, Window};
use weir_rt::executable::{
    FRAME_COOKIE, FRAME_FLOATS, FRAME_IS_ENTRY, FRAME_IS_RETURN, FRAME_SESSION_COOKIE, Frame,
};

use crate::isa::x86_64::alignment;
use crate::isa::x86_64::called;
use crate::isa::x86_64::emitter::{Emitter, RAX, RCX, RSP, SLOTS};
use crate::isa::x86_64::forked;
use crate::isa::x86_64::meter::Metering;
use crate::isa::x86_64::relocate::relocate;
use crate::isa::x86_64::unwind::frames;
use crate::limits::{PROGRAMS_PER_SITE_MAX, TRAMPOLINE_BYTES_MAX};
use crate::program::When;

/// Bytes of stack that a trampoline takes: a `Frame`, the saved flags, and when a metered hit began. Return addresses into an island stay behind in dead stack; where a later call does not write over one, a
/// thread that waits in that call looks as if it would come back, and the code stays mapped after detaching. With 208
/// bytes that happened to threads in poll(2) (tests/adversity.rs). Adopting what such a session leaves would be better.
pub const FRAME_BYTES: i32 = 272;
/// What a function may keep below its stack pointer (System V AMD64 psABI, 3.2.2).
pub const RED_ZONE_BYTES: i32 = 128;
/// Vector registers that pass arguments: xmm0 and up.
const FLOATS: u8 = 8;
const FLAGS_SLOT: i32 = size_of::<Frame>() as i32;
/// When a hit began that is timed, else 0.
pub const START_SLOT: i32 = FLAGS_SLOT + 8;

/// One program to call at a site.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Where its code stands in the target.
    pub address: u64,
    pub cookie: u64,
    pub clobbers: u16,
    pub clobbers_flags: bool,
    /// It runs with the alignment check off.
    pub may_misalign: bool,
    /// Bit n: slot n of the frame may be read: of `pt_regs`, or from 21 on the low half of a vector register.
    pub context_reads: u32,
    pub reads_cookie: bool,
    pub uses_session: bool,
    /// It asks for the chain of callers.
    pub walks_stack: bool,
    pub when: When,
}

/// A trampoline for one site.
#[derive(Clone, Debug)]
pub struct Trampoline {
    pub code: Vec<u8>,
    /// Offset in `code` where the patch jumps to.
    pub entry: u32,
    /// Where in `code` a thread stands that has run the programs, and the address in the unpatched function that
    /// is the same place: for moving program counters out of a window and back.
    pub places: Vec<(u32, u64)>,
    /// How to unwind through it, where that is ever wanted.
    pub frames: Vec<frames::Frame>,
    /// Where it calls the function, if it does.
    pub calls_function: Option<FunctionCall>,
}

/// The call of the function itself.
#[derive(Clone, Debug)]
pub struct FunctionCall {
    /// Offset in the trampoline of what it comes back to.
    pub returns_to: u32,
    /// Bytes that are kept on the stack meanwhile.
    pub kept_bytes: u32,
    /// The programs that want the return, by their numbers, and the byte of what is kept that is 0 where one does not
    /// after all.
    pub wanting: Vec<(usize, Option<u32>)>,
}

/// Where the parts of one site lie in the target.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// Address of the trampoline.
    pub at: u64,
    /// What the target adds to the window's link addresses.
    pub bias: u64,
    /// Address of the gate word: 0, or the address of a word that opens it if its low half is not 0.
    pub gate: u64,
    pub metering: Metering,
    /// Address of the routine for hits of forked children ([`forked`]).
    pub forked: u64,
    /// Where such a hit begins again.
    pub hit: u64,
    /// Address of the function's first byte, the `ip` of its context.
    pub function: u64,
}

/// Generates the trampoline of `window` that calls `calls` in order.
pub fn generate(window: &Window, placement: Placement, calls: &[Call]) -> Result<Trampoline, Refusal> {
    if calls.len() > PROGRAMS_PER_SITE_MAX {
        return Err(Refusal::TooManyPrograms { given: calls.len(), max: PROGRAMS_PER_SITE_MAX });
    }
    let frame_bytes = FRAME_BYTES + if window.inside { RED_ZONE_BYTES } else { 0 };
    let (mut out, mut places) = (Emitter::new(placement.at, frame_bytes), Vec::new());
    // A child can begin a hit again where nothing of the function has run yet. Few windows are so long that there is no room for it.
    let waits = window.parts().0.is_empty();
    let begun = begin(&mut out, window, placement, calls, &mut places, waits)?;
    let Begun { metered, way_out, entry } = match begun {
        Some(begun) => begun,
        None => {
            (out, places) = (Emitter::new(placement.at, frame_bytes), Vec::new());
            let begun = begin(&mut out, window, placement, calls, &mut places, false)?;
            begun.expect("the way out is short: a window has at most 19 bytes")
        }
    };
    let at = match (window.is_exit, window.inside) {
        (true, _) => At::Return,
        (false, true) => At::Inside,
        (false, false) => At::Entry,
    };
    let metering = placement.metering;
    run(&mut out, window, placement, calls, at);
    leave(&mut out, window, placement, calls, &mut places)?;
    out.land_near(metered);
    let not = metering.begin(&mut out);
    run(&mut out, window, placement, calls, at);
    metering.finish(&mut out);
    out.land_near(not);
    out.jump(placement.at + way_out as u64);
    out.cold();
    assert!(out.code.len() <= TRAMPOLINE_BYTES_MAX, "{} bytes in one trampoline", out.code.len());
    Ok(Trampoline { code: out.code, entry, places, frames: Vec::new(), calls_function: None })
}

/// The first part of a trampoline.
struct Begun {
    /// The branch to where hits are counted, or timed.
    metered: usize,
    way_out: usize,
    entry: u32,
}

/// From the ways out to behind the gate. None where a gate is too far from one of them; `waits`: forked children have a way of their own.
fn begin(
    out: &mut Emitter,
    window: &Window,
    placement: Placement,
    calls: &[Call],
    places: &mut Vec<(u32, u64)>,
    waits: bool,
) -> Result<Option<Begun>, Refusal> {
    let kept =
        if matches!(window.shape, Shape::Called(_)) { 8 * called::kept_words(changed(calls)) } else { 0 };
    let WaysOut { metered, wiped, way_out } = ways_out(out, placement, kept, waits);
    leave(out, window, placement, calls, places)?;
    let entry = out.code.len() as u32;
    displaced(out, window.parts().0, placement, places)?;
    if matches!(window.shape, Shape::Called(_)) {
        called::keep(out, changed(calls));
    }
    out.move_stack(-out.frame_bytes);
    let is_near = pass_gate(out, placement.gate, wiped);
    Ok(is_near.then_some(Begun { metered, way_out, entry }))
}

/// Where hits go that are not armed.
#[derive(Debug)]
pub struct WaysOut {
    /// The branch to where hits are counted, or timed.
    pub metered: usize,
    /// Where the gate is wiped: of forked children.
    pub wiped: usize,
    /// Unprobed; what comes next is written there.
    pub way_out: usize,
}

/// What stands before the way out, at the beginning of a trampoline. `kept`: bytes of the stack above the frame; `waits`: forked children
/// have a way of their own.
pub fn ways_out(out: &mut Emitter, placement: Placement, kept: i32, waits: bool) -> WaysOut {
    let (gone, metered) = placement.metering.off(out);
    let wiped = out.code.len();
    if waits {
        forked::stub(out, placement, kept);
    }
    assert!(out.land(gone), "a few instructions are no far way");
    WaysOut { metered, wiped, way_out: out.code.len() }
}

/// Goes on behind this where the gate is open, else to `wiped` or to the beginning of the trampoline. False if one of those is too far.
pub fn pass_gate(out: &mut Emitter, gate: u64, wiped: usize) -> bool {
    out.save(RCX);
    out.load_rip_rcx(gate);
    let is_near = out.jrcxz_to(wiped);
    out.load_half_rcx();
    out.jrcxz_to(0) && is_near
}

/// Saves, calls the programs, restores all but rcx.
fn run(out: &mut Emitter, window: &Window, placement: Placement, calls: &[Call], at: At) {
    let mut needs = Needs::of(calls);
    let sp = out.frame_bytes;
    if let Shape::Called(called) = &window.shape {
        needs = needs.of_function();
        called::fields(out, called, &|slot| needs.is_read(slot));
    } else {
        needs.save(out);
    }
    match at {
        _ if matches!(window.shape, Shape::Called(_)) => {
            stack_pointer(out, &needs, sp + 8 * called::kept_words(changed(calls)));
        }
        At::Entry | At::Inside => constants(out, &needs, Some((placement.function, sp))),
        At::Return => {
            constants(out, &needs, None);
            caller(out, &needs, sp);
        }
    }
    needs.save_flags(out);
    for call in calls {
        before_program(out, call, at);
        if call.uses_session {
            // Every hit is a session of its own, of an entry alone.
            out.store_constant(FRAME_SESSION_COOKIE as i32, 0);
        }
        out.call(call.address);
    }
    needs.restore(out);
}

/// Registers that one of the programs changes.
fn changed(calls: &[Call]) -> u16 {
    calls.iter().fold(0, |changed, call| changed | call.clobbers)
}

/// What programs that are called one after the other read and change.
#[derive(Debug)]
pub struct Needs {
    reads: u32,
    /// Registers by encoding number, rcx and rsp never among them: rcx is saved in any case.
    changed: u16,
    pub flags: bool,
    /// The alignment check is turned off for them.
    misaligns: bool,
}

impl Needs {
    pub fn of<'a>(calls: impl IntoIterator<Item = &'a Call>) -> Needs {
        let mut needs = Needs { reads: 0, changed: 0, flags: false, misaligns: false };
        for call in calls {
            needs.reads |= call.context_reads;
            needs.changed |= call.clobbers & !(1 << RCX | 1 << RSP);
            needs.flags |= call.clobbers_flags || call.may_misalign;
            needs.misaligns |= call.may_misalign;
        }
        if needs.flags { needs.with_flags() } else { needs }
    }

    /// The same where nothing but the alignment check is to be as it was.
    fn of_function(self) -> Needs {
        let needs = Needs { changed: 0, flags: self.misaligns, ..self };
        if needs.flags { needs.with_flags() } else { needs }
    }

    /// The same where the flags, and so rax, are used besides.
    pub fn with_flags(mut self) -> Needs {
        self.flags = true;
        self.with_rax()
    }

    pub fn with_rax(mut self) -> Needs {
        self.changed |= 1 << RAX;
        self
    }

    pub fn is_read(&self, slot: i32) -> bool {
        self.reads >> (slot / 8) & 1 == 1
    }

    fn is_changed(&self, register: u8) -> bool {
        self.changed >> register & 1 == 1
    }

    pub fn save(&self, out: &mut Emitter) {
        for register in (0..16).filter(|&register| register != RCX && register != RSP) {
            if self.is_changed(register) || self.is_read(SLOTS[register as usize]) {
                out.save(register);
            }
        }
        for number in 0..FLOATS {
            let slot = FRAME_FLOATS as i32 + 8 * i32::from(number);
            if self.is_read(slot) {
                out.store_float(number, slot);
            }
        }
    }

    /// Uses rcx.
    pub fn save_flags(&self, out: &mut Emitter) {
        if self.flags {
            out.bytes(&[0x9f, 0x0f, 0x90, 0xc0]); // lahf; seto %al
            out.store(RAX, FLAGS_SLOT);
        }
        if self.misaligns {
            alignment::leave_unchecked(out, FLAGS_SLOT);
        }
    }

    /// All but rcx.
    pub fn restore(&self, out: &mut Emitter) {
        if self.flags {
            out.load(RAX, FLAGS_SLOT);
            out.bytes(&[0x04, 0x7f]); // add $127,%al
            if self.misaligns {
                alignment::check_again(out);
            }
            out.bytes(&[0x9e]); // sahf
        }
        for register in (0..16).filter(|&register| self.is_changed(register)) {
            out.restore(register);
        }
    }
}

/// Where in a function programs run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    Entry,
    Inside,
    /// At a function's exit, or where a function that was called through comes back.
    Return,
}

/// Where the caller goes on and its stack pointer there, at a function's exit: the word `above` the stack pointer is the return address. Uses
/// rcx.
fn caller(out: &mut Emitter, needs: &Needs, above: i32) {
    if needs.is_read(IP) {
        out.load(RCX, above);
        out.store(RCX, IP);
    }
    stack_pointer(out, needs, above + 8);
}

/// The slot of the stack pointer, if it is read: so far above this one. Uses rcx.
fn stack_pointer(out: &mut Emitter, needs: &Needs, above: i32) {
    if needs.is_read(SP) {
        out.bytes(&[0x48, 0x8d, 0x8c, 0x24]); // lea above(%rsp),%rcx
        out.bytes(&above.to_le_bytes());
        out.store(RCX, SP);
    }
}

/// Weir's own words of the frame.
pub fn before_program(out: &mut Emitter, call: &Call, at: At) {
    if call.reads_cookie {
        let cookie = i32::try_from(call.cookie);
        out.store_constant(
            FRAME_COOKIE as i32,
            cookie.expect("a cookie is an index of a site, far below 2^31"),
        );
    }
    if call.uses_session || call.walks_stack {
        // Both halves of the word, and no tail call so far.
        let entry = i32::from(at == At::Entry) << (8 * (FRAME_IS_ENTRY - FRAME_IS_RETURN));
        out.store_constant(FRAME_IS_RETURN as i32, entry | i32::from(at == At::Return));
    }
}

pub const IP: i32 = 128;
pub const SP: i32 = 152;

/// The slots of `pt_regs` that no register holds as it is; of ip and sp only if they are given: the former's value, and
/// how far above the stack pointer the latter is. Uses rcx, and no flag before it is read.
pub fn constants(out: &mut Emitter, needs: &Needs, place: Option<(u64, i32)>) {
    const ORIG_AX: i32 = 120;
    const CS: i32 = 136;
    const FLAGS: i32 = 144;
    const SS: i32 = 160;
    if needs.is_read(FLAGS) {
        out.bytes(&[0x9c, 0x59]); // pushfq; pop %rcx
        out.store(RCX, FLAGS);
    }
    if let Some((ip, sp)) = place {
        stack_pointer(out, needs, sp);
        if needs.is_read(IP) {
            out.bytes(&[0x48, 0xb9]); // movabs $ip,%rcx
            out.bytes(&ip.to_le_bytes());
            out.store(RCX, IP);
        }
    }
    for (slot, value) in [(ORIG_AX, -1), (CS, 0x33), (SS, 0x2b)] {
        if needs.is_read(slot) {
            out.store_constant(slot, value);
        }
    }
}

/// Takes the frame down and goes on in the function.
fn leave(
    out: &mut Emitter,
    window: &Window,
    placement: Placement,
    calls: &[Call],
    places: &mut Vec<(u32, u64)>,
) -> Result<(), Refusal> {
    out.restore(RCX);
    out.move_stack(out.frame_bytes);
    if matches!(window.shape, Shape::Called(_)) {
        called::give_back(out, changed(calls));
    }
    go_on(out, window, placement, places)
}

/// Displaced instructions as they do there what they did in the function.
fn displaced(
    out: &mut Emitter,
    instructions: &[Instruction],
    placement: Placement,
    places: &mut Vec<(u32, u64)>,
) -> Result<(), Refusal> {
    let at = out.code.len() as u32;
    let moved = relocate(instructions, placement.bias, placement.at + u64::from(at))?;
    for (instruction, offset) in instructions.iter().zip(&moved.offsets) {
        places.push((at + offset, instruction.ip() + placement.bias));
    }
    out.bytes(&moved.code);
    Ok(())
}

/// The displaced instructions that run after programs, and a jump to what is behind them.
pub fn go_on(
    out: &mut Emitter,
    window: &Window,
    placement: Placement,
    places: &mut Vec<(u32, u64)>,
) -> Result<(), Refusal> {
    if matches!(window.shape, Shape::Called(_)) {
        out.bytes(&called::RETURN);
        return Ok(());
    }
    displaced(out, window.parts().1, placement, places)?;
    if window.goes_on() {
        let end = window.end() + placement.bias;
        places.push((out.code.len() as u32, end));
        out.jump(end);
    }
    Ok(())
}

#[cfg(test)]
pub mod tests {
    use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter};

    use super::*;
    use weir_plan::body;
    use weir_plan::window::{FunctionCode, plan};

    pub const PLACEMENT: Placement = Placement {
        at: 0x7f00_0010_0000,
        bias: 0x7f00_0000_0000,
        gate: 0x7f00_0020_0000,
        metering: Metering { lease: 0x1234_5678_92c0, meter: 0x1234_5678_a000, routines: 0x7f00_0010_8000 },
        forked: 0x7f00_0010_9000,
        hit: 0x7f00_0000_1000,
        function: 0x7f00_0000_1000,
    };

    /// `push %rbp; mov %rsp,%rbp; sub $16,%rsp; ret`
    pub const FUNCTION: [u8; 9] = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0xc3];

    pub fn window(bytes: &[u8]) -> Window {
        plan(FunctionCode::at_entry(0x1000, bytes, &[]), &body::read(0x1000, bytes)).unwrap()
    }

    pub fn call(clobbers: u16, clobbers_flags: bool, context_reads: u32) -> Call {
        Call {
            address: 0x7f00_0011_0000,
            cookie: 7,
            clobbers,
            clobbers_flags,
            may_misalign: false,
            context_reads,
            reads_cookie: true,
            uses_session: false,
            walks_stack: false,
            when: When::Entry,
        }
    }

    pub fn disassembled(code: &[u8]) -> Vec<String> {
        let mut formatter = GasFormatter::new();
        Decoder::with_ip(64, code, PLACEMENT.at, DecoderOptions::NONE)
            .iter()
            .map(|instruction: Instruction| {
                let mut line = String::new();
                formatter.format(&instruction, &mut line);
                line
            })
            .collect()
    }

    fn check(calls: &[Call]) -> (Trampoline, Vec<String>) {
        let trampoline = generate(&window(&FUNCTION), PLACEMENT, calls).unwrap();
        let lines = disassembled(&trampoline.code);
        (trampoline, lines)
    }

    #[test]
    fn decodes_to_what_was_meant() {
        let (trampoline, lines) = check(&[call(1 << 2, true, 1 << 14)]);
        for wanted in [
            "jrcxz",
            "lahf",
            "seto %al",
            "sahf",
            "mov %rdx,0x60(%rsp)",
            "mov 0x60(%rsp),%rdx",
            "mov %rdi,0x70(%rsp)",
        ] {
            assert!(
                lines.iter().any(|line| line.starts_with(wanted)),
                "{wanted} not in\n{}",
                lines.join("\n")
            );
        }
        assert!(!lines.iter().any(|line| line == "(bad)"), "{}", lines.join("\n"));
        // rdi is read but not clobbered, so it is not restored.
        assert!(!lines.iter().any(|line| line.ends_with(",%rdi")), "{}", lines.join("\n"));
        assert!(trampoline.code.len() < 295, "{} bytes", trampoline.code.len());
    }

    #[test]
    fn touches_no_flag_where_the_program_does_not() {
        let (_, lines) = check(&[call(1, false, 0)]);
        for line in &lines {
            let name = line.split(' ').next().unwrap();
            let is_window = name == "sub";
            assert!(
                is_window
                    || ["lea", "mov", "movabs", "movq", "movzwl", "jrcxz", "call", "jmp", "push"]
                        .contains(&name),
                "{line}"
            );
        }
    }

    #[test]
    fn the_alignment_check_is_asked_for_where_it_matters() {
        let (plain, lines) = check(&[call(1, true, 0)]);
        assert!(!lines.iter().any(|line| line.starts_with("pushf")), "{}", lines.join("\n"));
        let (odd, lines) = check(&[call(1, false, 0), Call { may_misalign: true, ..call(1, false, 0) }]);
        let count = |wanted: &str| lines.iter().filter(|line| line.starts_with(wanted)).count();
        // Once for all programs of a hit, and as often for a metered one; where the check is on, it is written twice.
        assert_eq!((count("pushf"), count("popf")), (2 + 2, 2 * 2), "{}", lines.join("\n"));
        assert_eq!(
            (count("lahf"), count("sahf"), count("jb "), count("jne ")),
            (2, 2, 2, 2),
            "{}",
            lines.join("\n")
        );
        assert!(!lines.iter().any(|line| line == "(bad)"), "{}", lines.join("\n"));
        assert_eq!(plain.places.len(), odd.places.len());
    }

    #[test]
    fn both_ways_out_return_to_the_function() {
        let (trampoline, _) = check(&[call(0, false, 0)]);
        let originals: Vec<u64> = trampoline.places.iter().map(|place| place.1).collect();
        let once = [0x7f00_0000_1000, 0x7f00_0000_1001, 0x7f00_0000_1004, 0x7f00_0000_1008];
        assert_eq!(
            originals[..4],
            once[..3].iter().copied().chain([0x7f00_0000_1008]).collect::<Vec<_>>()[..]
        );
        assert_eq!(originals[4..], once);
    }

    #[test]
    fn at_an_exit_programs_run_between_what_was_before_it_and_the_exit() {
        // pop %rbx; pop %rbp; pop %r12; ret
        let bytes = [0x5b, 0x5d, 0x41, 0x5c, 0xc3];
        let body = body::read(0x1000, &bytes);
        let code = FunctionCode::at_exit(0x1000, &bytes, &[], 0x1004, &[0x1000, 0x1001, 0x1002], &body);
        let window = plan(code, &body).unwrap();
        let reads = slot_bit(IP as u32) | slot_bit(SP as u32);
        let trampoline = generate(&window, PLACEMENT, &[call(0, false, reads)]).unwrap();
        let lines = disassembled(&trampoline.code);
        let pops = lines.iter().position(|line| line == "pop %rbx").expect("the pops");
        assert_eq!(lines[pops..pops + 4], ["pop %rbx", "pop %rbp", "pop %r12", "lea -0x190(%rsp),%rsp"]);
        // Both ways out are the exit alone, and the pops stand once.
        let count = |wanted: &str| lines.iter().filter(|line| *line == wanted).count();
        assert_eq!((count("pop %rbx"), count("ret")), (1, 2), "{}", lines.join("\n"));
        // The word above the frame is the return address; the caller's stack pointer is behind it.
        assert!(lines.contains(&"mov 0x190(%rsp),%rcx".to_owned()), "{}", lines.join("\n"));
        assert!(lines.contains(&"lea 0x198(%rsp),%rcx".to_owned()), "{}", lines.join("\n"));
        let entry = u64::from(trampoline.entry);
        let originals: Vec<(u64, u64)> = (trampoline.places.iter())
            .map(|&(at, original)| (u64::from(at), original - PLACEMENT.bias))
            .filter(|(at, _)| (entry..entry + 5).contains(at))
            .collect();
        assert_eq!(originals, [(entry, 0x1000), (entry + 1, 0x1001), (entry + 2, 0x1002)]);
    }

    #[test]
    fn inside_a_function_the_red_zone_is_left_alone() {
        // nop; push %rbp; mov %rsp,%rbp; ret
        let bytes = [0x90, 0x90, 0x55, 0x48, 0x89, 0xe5, 0xc3];
        let code = FunctionCode::at(0x1000, &bytes, &[], 0x1001);
        let window = plan(code, &body::read(0x1000, &bytes)).unwrap();
        let placement = Placement { function: 0x7f00_0000_1001, ..PLACEMENT };
        let sp = slot_bit(152);
        let trampoline = generate(&window, placement, &[call(0, true, sp)]).unwrap();
        let code = &trampoline.code;
        let moves: Vec<i32> = Decoder::with_ip(64, code, PLACEMENT.at, DecoderOptions::NONE)
            .iter()
            .filter(|i| i.mnemonic() == iced_x86::Mnemonic::Lea && i.memory_base() == iced_x86::Register::RSP)
            .map(|i| i.memory_displacement64() as i32)
            .collect();
        // The way out, the entry, the stack pointer that programs see, the way back; that of a metered hit.
        assert_eq!(moves, [400, -400, 400, 400, 400]);
    }

    /// The bit of the slot at this byte of `pt_regs`.
    fn slot_bit(offset: u32) -> u32 {
        1 << (offset / 8)
    }

    #[test]
    fn floating_point_arguments_are_stored_where_they_are_read() {
        let (_, lines) = check(&[call(0, false, slot_bit(168) | slot_bit(224))]);
        let vector: Vec<&String> = lines.iter().filter(|line| line.contains("xmm")).collect();
        // In a metered hit too.
        assert_eq!(vector, ["movq %xmm0,0xA8(%rsp)", "movq %xmm7,0xE0(%rsp)"].repeat(2));
    }

    #[test]
    fn the_largest_trampoline_has_room() {
        let mut largest = call(0xffff, true, 0x1fff_ffff);
        (largest.uses_session, largest.walks_stack, largest.may_misalign) = (true, true, true);
        check(&[largest; PROGRAMS_PER_SITE_MAX]);
    }

    #[test]
    fn refuses_too_many_programs() {
        let many = vec![call(0, false, 0); 17];
        let bytes = [0xb8, 0, 0, 0, 0, 0xc3];
        let window = window(&bytes);
        assert_eq!(generate(&window, PLACEMENT, &many).unwrap_err().code(), "too-many-programs");
    }
}
