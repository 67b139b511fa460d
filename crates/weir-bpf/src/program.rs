//! A program that was verified, on the engine that runs it.

use std::sync::Arc;

use weir_ebpf::{ProgramKind, pt_regs};
use weir_interp::Environment;
use weir_interp::threaded::Threaded;
use weir_rt::executable::{Executable, Frame};
use weir_rt::limits::LENT_BYTES_MAX;
use weir_rt::local::{self, LocalProgram, PacketFields};
use weir_rt::segment::Segment;
use weir_rt::{Context, ContextMut};
use weir_verifier::VerifiedProgram;

use crate::error::Error;

/// What runs programs. All give the same results.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Engine {
    /// Machine code of this processor.
    #[default]
    Jit,
    /// The interpreter; what it has no form for, the next one runs.
    Interpreter,
    /// The interpreter that checks each access once more, on a copy of what it is lent.
    CheckingInterpreter,
}

/// See above. It may be run by several threads at once.
#[derive(Debug)]
pub struct Program {
    segment: Arc<Segment>,
    /// The program to run, by its number in the object, and those that its tail calls may lead to.
    programs: Vec<(u32, VerifiedProgram)>,
    /// They may take over from each other.
    takes_over: bool,
    engine: Ready,
    /// Machine code of a classifier that writes to no packet.
    is_reader: bool,
    /// Of each run.
    rounds_max: Option<u32>,
}

#[derive(Debug)]
enum Ready {
    Checking,
    Threaded(Threaded<Arc<Segment>>),
    MachineCode(LocalProgram),
}

impl Program {
    /// The first of `programs`, by their numbers, is run; `takes_over`: they may take over from each other.
    pub(crate) fn new(
        segment: Arc<Segment>,
        programs: Vec<(u32, VerifiedProgram)>,
        takes_over: bool,
        engine: Engine,
        rounds_max: Option<u32>,
    ) -> Result<Program, Error> {
        let first = &programs[0].1;
        if takes_over && rounds_max.is_some() {
            return Err(Error::LimitedTailCalls);
        }
        let engine = match engine {
            Engine::CheckingInterpreter => Ready::Checking,
            Engine::Interpreter if rounds_max.is_some() => Ready::Checking,
            Engine::Interpreter => {
                let threaded = Threaded::of(first, Arc::clone(&segment));
                threaded.map_or(Ready::Checking, Ready::Threaded)
            }
            Engine::Jit => {
                let executables =
                    programs.iter().map(|(_, program)| executable(program, &segment, rounds_max.is_some()));
                let executables = executables.collect::<Result<Vec<_>, _>>()?;
                let numbers: Vec<u32> = programs.iter().map(|(number, _)| *number).collect();
                let loaded = match takes_over {
                    true => LocalProgram::load_numbered(&executables, &numbers, &segment)
                        .map(|mut loaded| loaded.swap_remove(0)),
                    false => LocalProgram::load(&executables[0], &segment),
                };
                Ready::MachineCode(loaded.map_err(Error::Loading)?)
            }
        };
        let is_classifier = first.kind() == ProgramKind::Classifier;
        let is_reader = rounds_max.is_none()
            && matches!(&engine, Ready::MachineCode(code) if is_classifier && !code.writes_packet());
        Ok(Program { segment, programs, takes_over, engine, is_reader, rounds_max })
    }

    /// What it is run on: a packet, memory, registers.
    pub fn kind(&self) -> ProgramKind {
        self.verified().kind()
    }

    /// Runs it on a packet, or on memory, as its kind has it; r0. A program of probes is run with registers of 0: then there are no bytes.
    ///
    /// # Errors
    /// [`Error::Data`] if the bytes do not suit the program; [`Error::Fault`] of the checking interpreter.
    pub fn run(&self, bytes: &mut [u8]) -> Result<u64, Error> {
        // SAFETY: the bytes are the caller's alone until this returns.
        unsafe { self.run_raw(bytes.as_mut_ptr(), bytes.len()) }
    }

    /// The same on bytes that others may change meanwhile. Programs of probes are given a `struct pt_regs`, with floating-point arguments
    /// after it if there are more bytes, and those of sockets a `struct bpf_sock`.
    ///
    /// # Errors
    /// As of [`Program::run`].
    ///
    /// # Safety
    /// `data` is null or points to `size` bytes, which programs of packets and memory may write.
    pub unsafe fn run_raw(&self, data: *mut u8, size: usize) -> Result<u64, Error> {
        let kind = self.kind();
        if data.is_null() && size != 0 {
            return Err(Error::Data(format!("{size} bytes at NULL")));
        }
        if kind.is_probe() {
            // SAFETY: the caller's promise.
            return self.run_in(&mut unsafe { registers(data, size) }?);
        }
        if let ProgramKind::Memory { bytes } = kind
            && (size != bytes as usize || !(data as usize).is_multiple_of(8))
        {
            return Err(Error::Data(format!(
                "{size} bytes at {data:p}; the program was verified for {bytes}, aligned to 8"
            )));
        }
        if size > LENT_BYTES_MAX as usize {
            return Err(Error::DataTooLarge(size));
        }
        // With more in the context than these bytes.
        let with_more = match kind {
            ProgramKind::CgroupSock => Some(Context::cgroup_sock as fn(&[u8]) -> Context),
            ProgramKind::FlowDissector => Some(Context::flow_dissector as _),
            _ => None,
        };
        if let Some(context) = with_more {
            // SAFETY: the caller's promise.
            let bytes = if size == 0 { &[][..] } else { unsafe { std::slice::from_raw_parts(data, size) } };
            return self.run_in(&mut context(bytes));
        }
        let mut frame = weir_memory::frame(kind, data as u64, size);
        match (&self.engine, self.rounds_max) {
            // SAFETY: the frame names the caller's bytes, which may be written: the caller's promise.
            (Ready::MachineCode(code), None) => return Ok(unsafe { code.run_frame(&mut frame) }),
            (Ready::MachineCode(code), Some(most)) => {
                // SAFETY: the same.
                return within_limit(unsafe { code.run_frame_limited(&mut frame, most + 1) }, most);
            }
            // SAFETY: the same.
            (Ready::Threaded(threaded), _) => return Ok(unsafe { threaded.run_frame(&mut frame) }),
            (Ready::Checking, _) => {}
        }
        // SAFETY: the caller's promise. The interpreter checks each access against a copy.
        let bytes = if size == 0 { &[][..] } else { unsafe { std::slice::from_raw_parts(data, size) } };
        let mut lent = match kind {
            ProgramKind::Xdp => Context::xdp(&[], bytes),
            ProgramKind::SocketFilter => Context::socket(&[], bytes),
            ProgramKind::Classifier => Context::classifier(&[], bytes, bytes.len() as u32),
            ProgramKind::CgroupSkb => Context::cgroup_skb(&[], bytes),
            ProgramKind::SkMsg => Context::sk_msg(bytes),
            _ => Context::memory(bytes),
        };
        let r0 = self.interpret(&mut lent)?;
        if size > 0 {
            // SAFETY: as above, and the copy overlaps nothing of the caller's.
            unsafe { std::ptr::copy_nonoverlapping(lent.bytes().as_ptr(), data, size) };
        }
        Ok(r0)
    }

    /// Runs it on a context that weir-rt made, of its kind: with more than bytes, such as where a packet came from.
    ///
    /// # Errors
    /// [`Error::Fault`] of the checking interpreter.
    pub fn run_in<'c>(&self, context: impl Into<ContextMut<'c>>) -> Result<u64, Error> {
        let context = context.into();
        match (&self.engine, self.rounds_max) {
            (Ready::MachineCode(code), Some(most)) => within_limit(code.run_limited(context, most + 1), most),
            (Ready::MachineCode(code), None) => Ok(code.run(context)),
            (Ready::Threaded(threaded), _) => Ok(threaded.run(context)),
            (Ready::Checking, _) => self.interpret(context),
        }
    }

    /// Asks a program of tc (a classifier) about a packet that is longer on the wire than its captured bytes; the lower half of r0. What it
    /// writes to the packet is lost. With [`Engine::Jit`], a program that writes to no packet is run on the bytes where they are.
    ///
    /// # Errors
    /// [`Error::Data`] if it is of another kind; [`Error::DataTooLarge`].
    #[inline]
    pub fn classify(&self, packet: &[u8], wire_bytes: u32) -> Result<u32, Error> {
        if packet.len() > LENT_BYTES_MAX as usize {
            return Err(Error::DataTooLarge(packet.len()));
        }
        match &self.engine {
            Ready::MachineCode(code) if self.is_reader => {
                Ok(code.classify(packet, wire_bytes, PacketFields::NONE))
            }
            _ => self.classify_copy(packet, wire_bytes),
        }
    }

    fn classify_copy(&self, packet: &[u8], wire_bytes: u32) -> Result<u32, Error> {
        let kind = self.kind();
        if kind != ProgramKind::Classifier {
            return Err(Error::Data(format!("a program of kind {} is no classifier", kind.name())));
        }
        let mut lent = Context::classifier(&[], packet, wire_bytes);
        Ok(self.run_in(&mut lent)? as u32)
    }

    fn verified(&self) -> &VerifiedProgram {
        &self.programs[0].1
    }

    fn interpret<'c>(&self, context: impl Into<ContextMut<'c>>) -> Result<u64, Error> {
        let most = self.programs.iter().map(|(number, _)| *number as usize + 1).max();
        let mut others = vec![None; most.filter(|_| self.takes_over).unwrap_or(0)];
        for (number, program) in self.programs.iter().filter(|_| self.takes_over) {
            others[*number as usize] = Some(program);
        }
        let environment = Environment { segment: &self.segment };
        let result = match self.rounds_max {
            Some(most) => weir_interp::run_limited(self.verified(), &environment, context, most),
            None => weir_interp::run_numbered(&others, self.verified(), &environment, context),
        };
        if let (Err(weir_interp::Fault::Rounds), Some(most)) = (&result, self.rounds_max) {
            return Err(Error::Rounds(most));
        }
        result.map_err(|fault| Error::Fault(format!("{}: {fault}", self.verified().name())))
    }
}

/// The answer of a run of `most` rounds at most, unless they were used up. It was given one more, so that those that are just
/// enough leave one.
fn within_limit((r0, left): (u64, u32), most: u32) -> Result<u64, Error> {
    if left == 0 { Err(Error::Rounds(most)) } else { Ok(r0) }
}

fn executable(verified: &VerifiedProgram, segment: &Segment, is_limited: bool) -> Result<Executable, Error> {
    let compile = if is_limited { weir_jit::compile_limited } else { weir_jit::compile };
    let executable = compile(verified, &local::site(segment.layout()));
    executable.map_err(|error| Error::Jit(error.to_string()))
}

/// A frame with the caller's `pt_regs`, or one of zeros.
///
/// # Safety
/// `data` is null or points to `size` bytes.
unsafe fn registers(data: *const u8, size: usize) -> Result<Frame, Error> {
    let mut frame = Frame::default();
    if data.is_null() || size == 0 {
        return Ok(frame);
    }
    let (plain, whole) = (pt_regs::BYTES as usize, pt_regs::BYTES_WITH_FLOATS as usize);
    if size != plain && size != whole {
        return Err(Error::Data(format!(
            "{size} bytes; a struct pt_regs has {plain}, and {whole} with floating-point arguments"
        )));
    }
    for (index, slot) in frame.regs.iter_mut().chain(&mut frame.floats).take(size / 8).enumerate() {
        // SAFETY: no more than size / 8 slots of 8 bytes are read.
        *slot = unsafe { data.cast::<u64>().add(index).read_unaligned() };
    }
    Ok(frame)
}
