//! Generates the code between a patched function and the programs that watch it.
//!
//! For a window `push %rbp; mov %rsp,%rbp; sub $16,%rsp` and one program that uses rax and flags:
//!
//! ```text
//! off:    mov   88(%rsp),%rcx           ; the gate is closed (fork child, detached): run unprobed
//!         lea   240(%rsp),%rsp
//!         push  %rbp; mov %rsp,%rbp; sub $16,%rsp      (relocated)
//!         jmp   function + 8
//! entry:  lea   -240(%rsp),%rsp         ; room for a Frame; lea and mov leave the flags alone
//!         mov   %rcx,88(%rsp)
//!         mov   gate(%rip),%rcx
//!         jrcxz off
//!         mov   %rax,80(%rsp)           ; what the programs clobber or read of pt_regs
//!         lahf; seto %al
//!         mov   %rax,192(%rsp)          ; flags, 1.2 ns; pushfq and popfq would take 3.3
//!         call  program
//!         mov   192(%rsp),%rax
//!         add   $127,%al; sahf
//!         mov   80(%rsp),%rax
//!         mov   88(%rsp),%rcx
//!         lea   240(%rsp),%rsp
//!         push  %rbp; mov %rsp,%rbp; sub $16,%rsp      (relocated, once more: saves a jump)
//!         jmp   function + 8
//! ```
//!
//! Nothing below the stack pointer is live at a function's entry, so the red zone is not skipped there; inside a
//! function it is, by 128 bytes more for the frame. The direction
//! flag and vector state are not touched: programs use neither.

use weir_rt::executable::{FRAME_COOKIE, FRAME_IS_RETURN, FRAME_SESSION_COOKIE, Frame};

use crate::limits::{PROGRAMS_PER_SITE_MAX, TRAMPOLINE_BYTES_MAX};
use crate::refusal::Refusal;
use crate::relocate::relocate;
use crate::unwind::frames;
use crate::window::Window;

/// Bytes of stack that a trampoline takes: a `Frame`, the saved flags, 8 bytes that keep it a multiple of 16, and 32 that
/// are not used. Return addresses into an island stay behind in dead stack; where a later call does not write over one, a
/// thread that waits in that call looks as if it would come back, and the code stays mapped after detaching. With 208
/// bytes that happened to threads in poll(2) (tests/adversity.rs). Adopting what such a session leaves would be better.
pub const FRAME_BYTES: i32 = 240;
/// What a function may keep below its stack pointer (System V AMD64 psABI, 3.2.2).
pub const RED_ZONE_BYTES: i32 = 128;
const FLAGS_SLOT: i32 = size_of::<Frame>() as i32;

/// Byte offset in `pt_regs` of each general register, by x86 encoding number (asm/ptrace.h).
const SLOTS: [i32; 16] = [80, 88, 96, 40, 152, 32, 104, 112, 72, 64, 56, 48, 24, 16, 8, 0];
const RAX: u8 = 0;
const RCX: u8 = 1;
const RSP: u8 = 4;

/// One program to call at a site.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Where its code stands in the target.
    pub address: u64,
    pub cookie: u64,
    pub clobbers: u16,
    pub clobbers_flags: bool,
    /// Bit n: slot n of `pt_regs` may be read.
    pub context_reads: u32,
    pub reads_cookie: bool,
    pub uses_session: bool,
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
}

/// Where the parts of one site lie in the target.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// Address of the trampoline.
    pub at: u64,
    /// What the target adds to the window's link addresses.
    pub bias: u64,
    /// Address of the gate word.
    pub gate: u64,
    /// Address of the function's first byte, the `ip` of its context.
    pub function: u64,
}

/// Generates the trampoline of `window` that calls `calls` in order.
pub fn generate(window: &Window, placement: Placement, calls: &[Call]) -> Result<Trampoline, Refusal> {
    if calls.len() > PROGRAMS_PER_SITE_MAX {
        return Err(Refusal::TooManyPrograms { given: calls.len(), max: PROGRAMS_PER_SITE_MAX });
    }
    let frame_bytes = FRAME_BYTES + if window.inside { RED_ZONE_BYTES } else { 0 };
    let mut out = Emitter { code: Vec::new(), at: placement.at, frame_bytes };
    let mut places = Vec::new();
    let off = out.code.len();
    leave(&mut out, window, placement, &mut places)?;
    let entry = out.code.len() as u32;
    out.move_stack(-frame_bytes);
    out.save(RCX);
    out.load_rip_rcx(placement.gate);
    out.jrcxz(off);
    run(&mut out, placement, calls);
    leave(&mut out, window, placement, &mut places)?;
    assert!(out.code.len() <= TRAMPOLINE_BYTES_MAX, "{} bytes in one trampoline", out.code.len());
    Ok(Trampoline { code: out.code, entry, places, frames: Vec::new() })
}

/// Saves, calls the programs, restores all but rcx.
fn run(out: &mut Emitter, placement: Placement, calls: &[Call]) {
    let clobbers = calls.iter().fold(0, |all, call| all | call.clobbers);
    let clobbers_flags = calls.iter().any(|call| call.clobbers_flags);
    let reads = calls.iter().fold(0, |all, call| all | call.context_reads);
    let is_read = |slot: i32| reads >> (slot / 8) & 1 == 1;
    let changed = |register: u8| clobbers >> register & 1 == 1 || (register == RAX && clobbers_flags);
    for register in (0..16).filter(|&register| register != RCX && register != RSP) {
        if changed(register) || is_read(SLOTS[register as usize]) {
            out.save(register);
        }
    }
    constants(out, placement, &is_read);
    if clobbers_flags {
        out.bytes(&[0x9f, 0x0f, 0x90, 0xc0]); // lahf; seto %al
        out.store(RAX, FLAGS_SLOT);
    }
    for call in calls {
        if call.reads_cookie {
            let cookie = i32::try_from(call.cookie);
            out.store_constant(
                FRAME_COOKIE as i32,
                cookie.expect("a cookie is an index of a site, far below 2^31"),
            );
        }
        if call.uses_session {
            // Every hit is a session of its own, of an entry alone.
            out.store_constant(FRAME_SESSION_COOKIE as i32, 0);
            out.store_constant(FRAME_IS_RETURN as i32, 0);
        }
        out.call(call.address);
    }
    if clobbers_flags {
        out.load(RAX, FLAGS_SLOT);
        out.bytes(&[0x04, 0x7f, 0x9e]); // add $127,%al; sahf
    }
    for register in (0..16).filter(|&register| register != RCX && register != RSP) {
        if changed(register) {
            out.restore(register);
        }
    }
}

/// The slots of `pt_regs` that no register holds as it is. Uses rcx, and no flag before it is read.
fn constants(out: &mut Emitter, placement: Placement, is_read: &dyn Fn(i32) -> bool) {
    const ORIG_AX: i32 = 120;
    const IP: i32 = 128;
    const CS: i32 = 136;
    const FLAGS: i32 = 144;
    const SP: i32 = 152;
    const SS: i32 = 160;
    if is_read(FLAGS) {
        out.bytes(&[0x9c, 0x59]); // pushfq; pop %rcx
        out.store(RCX, FLAGS);
    }
    if is_read(SP) {
        out.bytes(&[0x48, 0x8d, 0x8c, 0x24]); // lea FRAME_BYTES(%rsp),%rcx
        let bytes = out.frame_bytes.to_le_bytes();
        out.bytes(&bytes);
        out.store(RCX, SP);
    }
    if is_read(IP) {
        out.bytes(&[0x48, 0xb9]); // movabs $function,%rcx
        out.bytes(&placement.function.to_le_bytes());
        out.store(RCX, IP);
    }
    for (slot, value) in [(ORIG_AX, -1), (CS, 0x33), (SS, 0x2b)] {
        if is_read(slot) {
            out.store_constant(slot, value);
        }
    }
}

/// Takes the frame down and goes on in the function.
fn leave(
    out: &mut Emitter,
    window: &Window,
    placement: Placement,
    places: &mut Vec<(u32, u64)>,
) -> Result<(), Refusal> {
    out.restore(RCX);
    out.move_stack(out.frame_bytes);
    let at = out.code.len() as u32;
    let moved = relocate(&window.instructions, placement.bias, placement.at + u64::from(at))?;
    for (instruction, offset) in window.instructions.iter().zip(&moved.offsets) {
        places.push((at + offset, instruction.ip() + placement.bias));
    }
    out.bytes(&moved.code);
    if window.goes_on() {
        let end = window.end() + placement.bias;
        places.push((out.code.len() as u32, end));
        out.jump(end);
    }
    Ok(())
}

/// Writes the few instructions that a trampoline consists of.
struct Emitter {
    code: Vec<u8>,
    at: u64,
    /// What the stack pointer is lowered by.
    frame_bytes: i32,
}

impl Emitter {
    fn bytes(&mut self, bytes: &[u8]) {
        self.code.extend_from_slice(bytes);
    }

    /// `lea bytes(%rsp),%rsp`
    fn move_stack(&mut self, bytes: i32) {
        self.bytes(&[0x48, 0x8d, 0xa4, 0x24]);
        self.bytes(&bytes.to_le_bytes());
    }

    fn save(&mut self, register: u8) {
        self.store(register, SLOTS[register as usize]);
    }

    fn restore(&mut self, register: u8) {
        self.load(register, SLOTS[register as usize]);
    }

    /// `mov register,slot(%rsp)`
    fn store(&mut self, register: u8, slot: i32) {
        self.memory(0x89, register, slot);
    }

    /// `mov slot(%rsp),register`
    fn load(&mut self, register: u8, slot: i32) {
        self.memory(0x8b, register, slot);
    }

    fn memory(&mut self, opcode: u8, register: u8, slot: i32) {
        let rex = 0x48 | (register >> 3) << 2;
        let field = (register & 7) << 3 | 0b100;
        match i8::try_from(slot) {
            Ok(short) => self.bytes(&[rex, opcode, 0x40 | field, 0x24, short as u8]),
            Err(_) => {
                self.bytes(&[rex, opcode, 0x80 | field, 0x24]);
                self.bytes(&slot.to_le_bytes());
            }
        }
    }

    /// `movq $value,slot(%rsp)`
    fn store_constant(&mut self, slot: i32, value: i32) {
        self.bytes(&[0x48, 0xc7, 0x84, 0x24]);
        self.bytes(&slot.to_le_bytes());
        self.bytes(&value.to_le_bytes());
    }

    /// `mov address(%rip),%rcx`
    fn load_rip_rcx(&mut self, address: u64) {
        self.bytes(&[0x48, 0x8b, 0x0d]);
        self.displacement(address);
    }

    fn call(&mut self, address: u64) {
        self.bytes(&[0xe8]);
        self.displacement(address);
    }

    fn jump(&mut self, address: u64) {
        self.bytes(&[0xe9]);
        self.displacement(address);
    }

    fn displacement(&mut self, address: u64) {
        let next = self.at + self.code.len() as u64 + 4;
        let displacement = address.wrapping_sub(next) as i64;
        let displacement =
            i32::try_from(displacement).expect("islands lie within 2 GiB of what they jump to");
        self.bytes(&displacement.to_le_bytes());
    }

    /// `jrcxz` back to the offset `to`.
    fn jrcxz(&mut self, to: usize) {
        let displacement = to as i64 - (self.code.len() as i64 + 2);
        let displacement =
            i8::try_from(displacement).expect("the way out is short: a window has at most 19 bytes");
        self.bytes(&[0xe3, displacement as u8]);
    }
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter, Instruction};

    use super::*;
    use crate::body;
    use crate::window::{FunctionCode, plan};

    const PLACEMENT: Placement = Placement {
        at: 0x7f00_0010_0000,
        bias: 0x7f00_0000_0000,
        gate: 0x7f00_0020_0000,
        function: 0x7f00_0000_1000,
    };

    fn window(bytes: &[u8]) -> Window {
        plan(FunctionCode::at_entry(0x1000, bytes, &[]), &body::read(0x1000, bytes)).unwrap()
    }

    fn call(clobbers: u16, clobbers_flags: bool, context_reads: u32) -> Call {
        Call {
            address: 0x7f00_0011_0000,
            cookie: 7,
            clobbers,
            clobbers_flags,
            context_reads,
            reads_cookie: true,
            uses_session: false,
        }
    }

    fn check(calls: &[Call]) -> (Trampoline, Vec<String>) {
        // push %rbp; mov %rsp,%rbp; sub $16,%rsp; ret
        let bytes = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0xc3];
        let window = window(&bytes);
        let trampoline = generate(&window, PLACEMENT, calls).unwrap();
        let mut formatter = GasFormatter::new();
        let lines = Decoder::with_ip(64, &trampoline.code, PLACEMENT.at, DecoderOptions::NONE)
            .iter()
            .map(|instruction: Instruction| {
                let mut line = String::new();
                formatter.format(&instruction, &mut line);
                line
            })
            .collect();
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
        assert!(trampoline.code.len() < 200);
    }

    #[test]
    fn touches_no_flag_where_the_program_does_not() {
        let (_, lines) = check(&[call(1, false, 0)]);
        for line in &lines {
            let name = line.split(' ').next().unwrap();
            let is_window = name == "sub";
            assert!(
                is_window || ["lea", "mov", "movq", "jrcxz", "call", "jmp", "push"].contains(&name),
                "{line}"
            );
        }
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
        // The way out, the entry, the stack pointer that programs see, the way back.
        assert_eq!(moves, [368, -368, 368, 368]);
    }

    /// The bit of the slot at this byte of `pt_regs`.
    fn slot_bit(offset: u32) -> u32 {
        1 << (offset / 8)
    }

    #[test]
    fn refuses_too_many_programs() {
        let many = vec![call(0, false, 0); 17];
        let bytes = [0xb8, 0, 0, 0, 0, 0xc3];
        let window = window(&bytes);
        assert_eq!(generate(&window, PLACEMENT, &many).unwrap_err().code(), "too-many-programs");
    }
}
