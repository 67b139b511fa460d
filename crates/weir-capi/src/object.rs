//! An open object, and programs that were loaded from it.
//!
//! In: bytes of a file, or instructions. Out: [`Object`]: its programs by name, and its maps in a segment of this
//! process; [`Program`]: one that was verified and is ready to run. Programs hold on to the segment, so that the order
//! in which things are closed does not matter.

use std::ffi::{CString, c_int};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use weir_ebpf::btf::core::Target;
use weir_ebpf::btf::{Btf, KERNEL_BTF};
use weir_ebpf::elf::{self, FILE_BYTES_MAX, ObjectFile};
use weir_ebpf::{Insn, MapKind, MapSpec, ProgramKind, pt_regs};
use weir_interp::Environment;
use weir_interp::threaded::Threaded;
use weir_rt::context::{self, Context, ContextMut};
use weir_rt::executable::{Executable, Frame};
use weir_rt::local::{self, LocalProgram};
use weir_rt::segment::{Identity, MapError, Segment, SegmentLayout};
use weir_verifier::{Limits, Rejection, RejectionKind, VerifiedProgram};

use crate::MapInfo;
use crate::error::{E2BIG, EACCES, EFBIG, EINVAL, EIO, ENOENT, ENOMEM, EOPNOTSUPP, Error, Result};

/// `struct weir_bpf_object`.
#[derive(Debug)]
pub struct Object {
    file: ObjectFile,
    segment: Arc<Segment>,
    program_names: Vec<CString>,
    map_names: Vec<CString>,
    /// Its one program is given memory of any size.
    is_bare: bool,
}

/// `struct weir_bpf_program`.
#[derive(Debug)]
pub struct Program {
    segment: Arc<Segment>,
    /// The program to run; where an array of programs holds some, all of the object by their numbers, which tail calls
    /// lead to.
    programs: Vec<VerifiedProgram>,
    /// Which of them is run.
    first: usize,
    /// An array of programs holds some.
    has_tail_calls: bool,
    engine: Ready,
}

/// What runs a program.
#[derive(Debug)]
enum Ready {
    /// The checking interpreter.
    Checking,
    Threaded(Threaded<Arc<Segment>>),
    MachineCode(LocalProgram),
}

/// A map by its place in the object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapNumber(pub(crate) c_int);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Engine {
    Interpreter,
    Jit,
    CheckingInterpreter,
}

impl Engine {
    pub(crate) fn of(number: c_int) -> Result<Engine> {
        match number {
            0 => Ok(Engine::Interpreter),
            1 => Ok(Engine::Jit),
            2 => Ok(Engine::CheckingInterpreter),
            other => Err(Error::new(
                EINVAL,
                format!(
                    "there is no engine {other}; 0 is the interpreter, 1 the JIT, 2 the checking interpreter"
                ),
            )),
        }
    }
}

impl Object {
    pub(crate) fn open(bytes: &[u8], btf: Option<&[u8]>) -> Result<Object> {
        let of_kernel = match btf {
            // Only a program that asks for the kernel's types has a need for 5 MB of them.
            None if elf::needs_target(bytes).unwrap_or(false) => std::fs::read(KERNEL_BTF).ok(),
            _ => None,
        };
        let btf = btf.or(of_kernel.as_deref()).map(Btf::parse).transpose();
        let btf = btf.map_err(|error| Error::new(EINVAL, format!("options.btf: {error}")))?;
        let file = elf::read_for(bytes, btf.as_ref().map(Target::new).as_ref());
        Object::of(file.map_err(|error| Error::new(EINVAL, error.to_string()))?, false)
    }

    pub(crate) fn open_file(path: &Path, btf: Option<&[u8]>) -> Result<Object> {
        let shown = path.display();
        let mut bytes = Vec::new();
        let read =
            File::open(path).and_then(|file| file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes));
        read.map_err(|error| Error::new(error.raw_os_error().unwrap_or(EIO), format!("{shown}: {error}")))?;
        if bytes.len() > FILE_BYTES_MAX {
            return Err(Error::new(E2BIG, format!("{shown} has more than {FILE_BYTES_MAX} bytes")));
        }
        Object::open(&bytes, btf).map_err(|error| error.in_file(&shown))
    }

    pub(crate) fn of_instructions(bytes: &[u8]) -> Result<Object> {
        let insns = bytes.as_chunks::<8>().0.iter().map(|slot| Insn::from_bytes(*slot)).collect();
        let kind = ProgramKind::Memory { bytes: 0 };
        let program = weir_ebpf::Program { name: "program".into(), kind, insns };
        Object::of(ObjectFile::of(weir_ebpf::Object { maps: Vec::new(), programs: vec![program] }), true)
    }

    fn of(file: ObjectFile, is_bare: bool) -> Result<Object> {
        let names = |names: Vec<&str>| names.into_iter().map(c_string).collect();
        let programs = file.object.programs.iter().map(|program| program.name.as_str());
        let maps = file.object.maps.iter().map(|map| map.name.as_str());
        let (program_names, map_names) = (names(programs.collect()), names(maps.collect()));
        let segment = Arc::new(segment(&file)?);
        Ok(Object { file, segment, program_names, map_names, is_bare })
    }

    pub(crate) fn program_names(&self) -> &[CString] {
        &self.program_names
    }

    pub(crate) fn verify(&self, name: Option<&str>, memory_size: usize) -> Result<VerifiedProgram> {
        self.verify_at(self.program_index(name)?, memory_size)
    }

    fn verify_at(&self, index: usize, memory_size: usize) -> Result<VerifiedProgram> {
        if let Some(message) = self.file.other_context(index) {
            return Err(Error::new(EOPNOTSUPP, message));
        }
        let mut program = self.file.object.programs[index].clone();
        if self.is_bare {
            let bytes = u32::try_from(memory_size);
            let bytes = bytes.map_err(|_| Error::new(E2BIG, format!("memory of {memory_size} bytes")))?;
            program.kind = ProgramKind::Memory { bytes };
        }
        let verified = weir_verifier::verify(&program, &self.file.object.maps, &Limits::default());
        verified.map_err(|rejection| self.of_rejection(&rejection, index))
    }

    pub(crate) fn load(&self, name: Option<&str>, engine: Engine, memory_size: usize) -> Result<Program> {
        let index = self.program_index(name)?;
        let has_tail_calls = self.file.maps.iter().any(|origin| !origin.programs.is_empty());
        // What is wrong with the one that was asked for is said before what is wrong with others.
        let verified = self.verify_at(index, memory_size)?;
        let (others, first) = if has_tail_calls { (self.file.object.programs.len(), index) } else { (0, 0) };
        let others = (0..others).filter(|other| *other != index);
        let others = others.map(|other| self.verify_at(other, memory_size));
        let mut programs = others.collect::<Result<Vec<_>>>()?;
        programs.insert(first, verified);
        let engine = match engine {
            Engine::CheckingInterpreter => Ready::Checking,
            Engine::Interpreter => {
                let threaded = Threaded::of(&programs[first], Arc::clone(&self.segment));
                threaded.map_or(Ready::Checking, Ready::Threaded)
            }
            Engine::Jit => {
                let executables = programs.iter().map(|program| executable(program, &self.segment));
                let executables = executables.collect::<Result<Vec<_>>>()?;
                let loaded = match has_tail_calls {
                    true => LocalProgram::load_all(&executables, &self.segment)
                        .map(|mut loaded| loaded.swap_remove(first)),
                    false => LocalProgram::load(&executables[first], &self.segment),
                };
                Ready::MachineCode(loaded.map_err(|error| of_loading(&error))?)
            }
        };
        Ok(Program { segment: Arc::clone(&self.segment), programs, first, has_tail_calls, engine })
    }

    pub(crate) fn map_named(&self, name: &str) -> Result<u32> {
        let found = self.file.object.maps.iter().position(|map| map.name == name);
        let found = found.ok_or_else(|| Error::new(ENOENT, format!("no map is named `{name}`")))?;
        Ok(found as u32)
    }

    pub(crate) fn map_spec(&self, map: MapNumber) -> Result<&MapSpec> {
        self.index(map).map(|index| &self.file.object.maps[index])
    }

    pub(crate) fn map_info(&self, map: MapNumber) -> Result<MapInfo> {
        let index = self.index(map)?;
        let spec = &self.file.object.maps[index];
        Ok(MapInfo {
            name: self.map_names[index].as_ptr(),
            kind: spec.kind as u32,
            key_size: spec.key_bytes,
            value_size: spec.value_bytes,
            max_entries: spec.max_entries,
            flags: spec.flags,
        })
    }

    pub(crate) fn lookup(&self, map: MapNumber, key: &[u8]) -> Result<Vec<u8>> {
        self.segment.user_map(self.index(map)?).lookup(key, 0).map_err(of_map)
    }

    pub(crate) fn update(&self, map: MapNumber, key: &[u8], value: &[u8], flags: u64) -> Result<()> {
        self.segment.user_map(self.index(map)?).update(key, value, flags).map_err(of_map)
    }

    /// Values that a key has: one, or one a lane.
    pub(crate) fn lanes(&self, map: MapNumber) -> Result<usize> {
        let layout = &self.segment.layout().maps[self.index(map)?];
        Ok(layout.claim_lanes.max(1) as usize)
    }

    /// The values of a key of a per-CPU map, each rounded up to 8 bytes.
    pub(crate) fn lookup_lanes(&self, map: MapNumber, key: &[u8]) -> Result<Vec<u8>> {
        let values = self.segment.user_map(self.index(map)?).lookup_lanes(key, 0).map_err(of_map)?;
        let padded = |value: Vec<u8>| {
            let bytes = value.len().next_multiple_of(8);
            value.into_iter().chain(std::iter::repeat(0)).take(bytes)
        };
        Ok(values.into_iter().flat_map(padded).collect())
    }

    pub(crate) fn update_lanes(&self, map: MapNumber, key: &[u8], values: &[u8], flags: u64) -> Result<()> {
        let index = self.index(map)?;
        let bytes = self.file.object.maps[index].value_bytes as usize;
        let values = values.chunks_exact(bytes.next_multiple_of(8)).map(|value| value[..bytes].to_vec());
        self.segment.user_map(index).update_lanes(key, &values.collect::<Vec<_>>(), flags).map_err(of_map)
    }

    pub(crate) fn skipped(&self) -> u64 {
        self.segment.counters().lanes_exhausted
    }

    pub(crate) fn delete(&self, map: MapNumber, key: &[u8]) -> Result<()> {
        self.segment.user_map(self.index(map)?).delete(key).map_err(of_map)
    }

    pub(crate) fn next_key(&self, map: MapNumber, key: Option<&[u8]>) -> Result<Vec<u8>> {
        self.segment.user_map(self.index(map)?).next_key(key).map_err(of_map)
    }

    pub(crate) fn ring_record(&self, map: MapNumber) -> Result<Option<Vec<u8>>> {
        let index = self.index(map)?;
        if self.file.object.maps[index].kind != MapKind::RingBuf {
            return Err(Error::new(EINVAL, format!("map {} is no ring", self.file.object.maps[index].name)));
        }
        if self.file.object.maps[index].overwrites() {
            let name = &self.file.object.maps[index].name;
            return Err(Error::new(
                EOPNOTSUPP,
                format!("map {name} overwrites its records: none is taken out of it"),
            ));
        }
        Ok(self.segment.ring(index).next().map(|record| record.bytes))
    }

    fn index(&self, map: MapNumber) -> Result<usize> {
        let index = usize::try_from(map.0).ok().filter(|index| *index < self.file.object.maps.len());
        index.ok_or_else(|| Error::new(ENOENT, format!("there is no map {}", map.0)))
    }

    fn program_index(&self, name: Option<&str>) -> Result<usize> {
        let programs = &self.file.object.programs;
        match name {
            None if programs.len() == 1 => Ok(0),
            None => {
                let message = format!("there are {} programs; one must be named", programs.len());
                Err(Error::new(ENOENT, message))
            }
            Some(name) => programs
                .iter()
                .position(|program| program.name == name)
                .ok_or_else(|| Error::new(ENOENT, format!("no program is named `{name}`"))),
        }
    }

    /// With the source line, and what CO-RE did not find there.
    fn of_rejection(&self, rejection: &Rejection, program: usize) -> Error {
        let errno = match rejection.kind {
            RejectionKind::Unsafe => EACCES,
            RejectionKind::Unsupported => EOPNOTSUPP,
            RejectionKind::TooBig => E2BIG,
        };
        let about = rejection.at.map_or_else(String::new, |at| self.file.about(program, at));
        Error::new(errno, format!("{rejection}{about}"))
    }
}

impl Program {
    /// # Safety
    /// `data` is NULL or points to `size` bytes, which programs of packets and memory may write.
    pub(crate) unsafe fn run(&self, data: *mut u8, size: usize) -> Result<u64> {
        let kind = self.verified().kind();
        if data.is_null() && size != 0 {
            return Err(Error::new(EINVAL, format!("{size} bytes at NULL")));
        }
        if kind.is_probe() {
            // SAFETY: the caller's promise.
            return self.run_frame(unsafe { registers(data, size) }?);
        }
        if let ProgramKind::Memory { bytes } = kind
            && (size != bytes as usize || !(data as usize).is_multiple_of(8))
        {
            let message =
                format!("{size} bytes at {data:p}; the program was verified for {bytes}, aligned to 8");
            return Err(Error::new(EINVAL, message));
        }
        if size > weir_rt::limits::LENT_BYTES_MAX as usize {
            return Err(Error::new(E2BIG, format!("{size} bytes")));
        }
        let mut frame = context::frame(kind, data as u64, size);
        match &self.engine {
            // SAFETY: the frame names the caller's bytes, which may be written: the caller's promise.
            Ready::MachineCode(code) => return Ok(unsafe { code.run_frame(&mut frame) }),
            // SAFETY: the same.
            Ready::Threaded(threaded) => return Ok(unsafe { threaded.run_frame(&mut frame) }),
            Ready::Checking => {}
        }
        // SAFETY: the caller's promise. The interpreter checks each access against a copy.
        let bytes = if size == 0 { &[][..] } else { unsafe { std::slice::from_raw_parts(data, size) } };
        let mut lent = match kind {
            ProgramKind::Xdp => Context::xdp(&[], bytes),
            ProgramKind::SocketFilter => Context::socket(&[], bytes),
            ProgramKind::Classifier => Context::classifier(&[], bytes, bytes.len() as u32),
            _ => Context::memory(bytes),
        };
        let r0 = self.interpret(&mut lent)?;
        if size > 0 {
            // SAFETY: as above, and the copy overlaps nothing of the caller's.
            unsafe { std::ptr::copy_nonoverlapping(lent.bytes().as_ptr(), data, size) };
        }
        Ok(r0)
    }

    fn verified(&self) -> &VerifiedProgram {
        &self.programs[self.first]
    }

    fn run_frame(&self, mut frame: Frame) -> Result<u64> {
        match &self.engine {
            Ready::MachineCode(code) => Ok(code.run(&mut frame)),
            Ready::Threaded(threaded) => Ok(threaded.run(&mut frame)),
            Ready::Checking => self.interpret(&mut frame),
        }
    }

    fn interpret<'c>(&self, context: impl Into<ContextMut<'c>>) -> Result<u64> {
        let others: Vec<&VerifiedProgram> = self.programs.iter().filter(|_| self.has_tail_calls).collect();
        let environment = Environment { segment: &self.segment };
        weir_interp::run_among(&others, self.verified(), &environment, context).map_err(of_fault)
    }
}

/// A frame with the caller's `pt_regs`, or one of zeros.
///
/// # Safety
/// `data` is NULL or points to `size` bytes.
unsafe fn registers(data: *const u8, size: usize) -> Result<Frame> {
    let mut frame = Frame::default();
    if data.is_null() {
        return Ok(frame);
    }
    let (plain, whole) = (pt_regs::BYTES as usize, pt_regs::BYTES_WITH_FLOATS as usize);
    if size != plain && size != whole {
        let message =
            format!("{size} bytes; a struct pt_regs has {plain}, and {whole} with floating-point arguments");
        return Err(Error::new(EINVAL, message));
    }
    for (index, slot) in frame.regs.iter_mut().chain(&mut frame.floats).take(size / 8).enumerate() {
        // SAFETY: no more than size / 8 slots of 8 bytes are read.
        *slot = unsafe { data.cast::<u64>().add(index).read_unaligned() };
    }
    Ok(frame)
}

/// The maps, with the contents that the file gives them.
fn segment(file: &ObjectFile) -> Result<Segment> {
    // All programs on per-CPU maps claim a lane, before it is known which of them need one: that costs a run 3 ns, and
    // an addition on the shared lane 2.
    let has_lanes = file.object.maps.iter().any(|map| map.kind.is_per_cpu());
    let plan = if has_lanes { SegmentLayout::plan_claimable } else { SegmentLayout::plan };
    let layout = plan(&file.object.maps, local::possible_cpus());
    let layout = layout.map_err(|error| Error::new(E2BIG, error.to_string()))?;
    let segment = Segment::create_local(layout, &Identity::default());
    let segment = segment.map_err(|error| {
        let errno = match error.kind() {
            io::ErrorKind::OutOfMemory => ENOMEM,
            io::ErrorKind::FileTooLarge => EFBIG,
            _ => error.raw_os_error().unwrap_or(EIO),
        };
        Error::new(errno, format!("making the maps: {error}"))
    })?;
    segment.fill(&file.maps).map_err(|(_, error)| of_map(error))?;
    Ok(segment)
}

pub(crate) fn executable(verified: &VerifiedProgram, segment: &Segment) -> Result<Executable> {
    let executable = weir_jit::compile(verified, &local::site(segment.layout()));
    executable.map_err(|error| Error::new(EOPNOTSUPP, error.to_string()))
}

pub(crate) fn of_loading(error: &io::Error) -> Error {
    Error::new(error.raw_os_error().unwrap_or(EIO), format!("loading machine code: {error}"))
}

fn of_map(error: MapError) -> Error {
    Error::new(error.errno(), error.to_string())
}

fn of_fault(fault: weir_interp::Fault) -> Error {
    Error::new(EIO, fault.to_string())
}

fn c_string(name: &str) -> CString {
    CString::new(name.replace('\0', " ")).unwrap_or_default()
}
