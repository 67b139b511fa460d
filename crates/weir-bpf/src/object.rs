//! An object file that is open: its programs by name, its maps in the memory of this process.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use weir_ebpf::btf::core::Target;
use weir_ebpf::btf::{Btf, KERNEL_BTF};
use weir_ebpf::elf::{self, FILE_BYTES_MAX, ObjectFile};
use weir_ebpf::{Insn, ProgramKind};
use weir_interp::Environment;
use weir_rt::ContextMut;
use weir_rt::local;
use weir_rt::segment::{Identity, Segment, SegmentLayout, map_fault};
use weir_verifier::{Limits, Maps, VerifiedProgram};

use crate::definitions::Definitions;
use crate::error::Error;
use crate::map::Map;
use crate::program::{Engine, Program};

/// See above.
#[derive(Debug)]
pub struct Object {
    file: ObjectFile,
    segment: Arc<Segment>,
    /// Its one program is given memory of any size.
    is_bare: bool,
}

impl Object {
    /// Opens an object file. Where it asks for the types of a kernel (CO-RE), they are those of the one that runs.
    ///
    /// # Errors
    /// If it cannot be read, or is no object of this kind.
    pub fn open(path: impl AsRef<Path>) -> Result<Object, Error> {
        Object::open_for(path.as_ref(), None)
    }

    /// The same for the kernel with these types, in the format BTF.
    ///
    /// # Errors
    /// As of [`Object::open`].
    pub fn open_for(path: &Path, types: Option<&[u8]>) -> Result<Object, Error> {
        Object::open_with(path, types, |_| Ok(()))
    }

    /// The same, with changes to its maps and variables before they are made.
    ///
    /// # Errors
    /// As of [`Object::open`]; what `change` answers.
    pub fn open_with(
        path: &Path,
        types: Option<&[u8]>,
        change: impl FnOnce(&mut Definitions<'_>) -> Result<(), Error>,
    ) -> Result<Object, Error> {
        let in_file = |error| Error::InFile { path: path.to_owned(), error: Box::new(error) };
        let mut bytes = Vec::new();
        let read =
            File::open(path).and_then(|file| file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes));
        read.map_err(|source| Error::File { path: path.to_owned(), source })?;
        if bytes.len() > FILE_BYTES_MAX {
            return Err(Error::FileTooLarge { path: path.to_owned(), most: FILE_BYTES_MAX });
        }
        Object::read_with(&bytes, types, change).map_err(in_file)
    }

    /// Reads the bytes of an object file.
    ///
    /// # Errors
    /// As of [`Object::open`].
    pub fn read(bytes: &[u8]) -> Result<Object, Error> {
        Object::read_for(bytes, None)
    }

    /// The same for the kernel with these types, in the format BTF.
    ///
    /// # Errors
    /// As of [`Object::open`].
    pub fn read_for(bytes: &[u8], types: Option<&[u8]>) -> Result<Object, Error> {
        Object::read_with(bytes, types, |_| Ok(()))
    }

    /// The same, with changes to its maps and variables before they are made.
    ///
    /// # Errors
    /// As of [`Object::open`]; what `change` answers.
    pub fn read_with(
        bytes: &[u8],
        types: Option<&[u8]>,
        change: impl FnOnce(&mut Definitions<'_>) -> Result<(), Error>,
    ) -> Result<Object, Error> {
        let of_kernel = match types {
            // Only a program that asks for the kernel's types has a need for 5 MB of them.
            None if elf::needs_target(bytes).unwrap_or(false) => std::fs::read(KERNEL_BTF).ok(),
            _ => None,
        };
        let types = types.or(of_kernel.as_deref()).map(Btf::parse).transpose().map_err(Error::Types)?;
        let target = types.as_ref().map(Target::new);
        let system = elf::System { target: target.as_ref(), kernel_version: local::kernel_version };
        let mut file = elf::read_on(bytes, system)?;
        change(&mut Definitions(&mut file))?;
        Object::of(file, false)
    }

    /// One program, named `program`, of instructions as they lie in memory (RFC 9669, section 3.1). It has no maps; r1 is the address
    /// of the memory that it is run on, r2 how many bytes that has ([`Object::load_for`]).
    ///
    /// # Errors
    /// If these are no whole instructions.
    pub fn of_instructions(bytes: &[u8]) -> Result<Object, Error> {
        let (slots, []) = bytes.as_chunks::<8>() else {
            return Err(Error::RaggedInstructions(bytes.len()));
        };
        let insns = slots.iter().map(|slot| Insn::from_bytes(*slot)).collect();
        let kind = ProgramKind::Memory { bytes: 0 };
        let program = weir_ebpf::Program { name: "program".into(), kind, insns };
        Object::of(ObjectFile::of(weir_ebpf::Object { maps: Vec::new(), programs: vec![program] }), true)
    }

    /// One program without maps, as other crates of this project make them: a packet filter.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn of_program(program: weir_ebpf::Program) -> Result<Object, Error> {
        Object::of(ObjectFile::of(weir_ebpf::Object { maps: Vec::new(), programs: vec![program] }), false)
    }

    /// What another reader of this project read: a text of instructions.
    ///
    /// # Errors
    /// [`Error::Maps`], [`Error::Memory`].
    pub fn of_file(file: ObjectFile) -> Result<Object, Error> {
        Object::of(file, false)
    }

    fn of(mut file: ObjectFile, is_bare: bool) -> Result<Object, Error> {
        // What is wrong with one map is no matter of programs that do not use it.
        file.leave_out_maps(map_fault);
        let segment = Arc::new(segment(&file)?);
        Ok(Object { file, segment, is_bare })
    }

    /// Names of its programs, in their order.
    pub fn programs(&self) -> impl Iterator<Item = &str> {
        self.file.object.programs.iter().map(|program| program.name.as_str())
    }

    /// The name of its program, if it has one alone.
    ///
    /// # Errors
    /// [`Error::NoProgram`].
    pub fn only_program(&self) -> Result<&str, Error> {
        match &self.file.object.programs[..] {
            [only] => Ok(&only.name),
            programs => {
                Err(Error::NoProgram(format!("there are {} programs; one must be named", programs.len())))
            }
        }
    }

    /// Maps that the file defines and that cannot be used, and why. Programs that use one are refused, others are not.
    pub fn unusable_maps(&self) -> impl Iterator<Item = (&str, &str)> {
        self.file.unusable.iter().map(|map| (map.name.as_str(), map.reason.as_str()))
    }

    /// Its maps, in their order.
    pub fn maps(&self) -> impl Iterator<Item = Map<'_>> {
        (0..self.file.object.maps.len()).map(|index| self.map_at(index))
    }

    /// The map of this name.
    ///
    /// # Errors
    /// [`Error::NoMap`].
    pub fn map(&self, name: &str) -> Result<Map<'_>, Error> {
        let found = self.maps().find(|map| map.spec.name == name);
        found.ok_or_else(|| Error::NoMap(name.to_owned()))
    }

    fn map_at(&self, index: usize) -> Map<'_> {
        Map { segment: &self.segment, index, spec: &self.file.object.maps[index] }
    }

    /// How often a run was skipped, since all lanes of its per-CPU maps were taken.
    pub fn skipped(&self) -> u64 {
        self.segment.counters().lanes_exhausted
    }

    /// Verifies a program as the kernel would. `memory`: for programs that are given memory, how many bytes that will have.
    ///
    /// # Errors
    /// [`Error::NoProgram`], [`Error::OtherContext`], [`Error::Rejected`].
    pub fn verify(&self, name: &str, memory: u32) -> Result<VerifiedProgram, Error> {
        self.verify_at(self.index(name)?, memory)
    }

    fn verify_at(&self, index: usize, memory: u32) -> Result<VerifiedProgram, Error> {
        if let Some(message) = self.file.other_context(index) {
            return Err(Error::OtherContext(message));
        }
        let mut program = self.file.object.programs[index].clone();
        if self.is_bare || program.kind == (ProgramKind::Memory { bytes: 0 }) {
            program.kind = ProgramKind::Memory { bytes: memory };
        }
        let frozen = self.file.frozen();
        let maps = Maps::frozen(&self.file.object.maps, &frozen);
        weir_verifier::verify(&program, maps, &Limits::default()).map_err(|rejection| {
            // With the source line, and what could not be had there.
            let about = self.file.about(index, rejection.at);
            Error::Rejected { kind: rejection.kind, words: format!("{rejection}{about}") }
        })
    }

    /// Verifies a program, and makes it ready to run.
    ///
    /// # Errors
    /// As of [`Object::verify`]; [`Error::Jit`] and [`Error::Loading`].
    pub fn load(&self, name: &str, engine: Engine) -> Result<Program, Error> {
        self.load_for(name, engine, 0)
    }

    /// The same of a program of bare instructions, or of a section `syscall`, that will be run on so many bytes of memory.
    ///
    /// # Errors
    /// As of [`Object::load`].
    pub fn load_for(&self, name: &str, engine: Engine, memory: u32) -> Result<Program, Error> {
        self.load_as(name, engine, memory, None)
    }

    /// The same with a limit of how long a run may take: rounds of all its loops that only helpers (`bpf_loop`,
    /// `bpf_for_each_map_elem`) or `may_goto` bound, also of those inside others. Where there are no more, each such loop ends, and
    /// the run is [`Error::Rounds`]; what it did until then stays done. At most [`ROUNDS_MAX`](crate::ROUNDS_MAX). Other loops are bounded by what the verifier
    /// follows. A limited program makes no tail calls, and [`Engine::Interpreter`] checks each access then.
    ///
    /// # Errors
    /// As of [`Object::load`]; [`Error::RoundsLimit`], [`Error::LimitedTailCalls`].
    pub fn load_limited(
        &self,
        name: &str,
        engine: Engine,
        memory: u32,
        rounds: u32,
    ) -> Result<Program, Error> {
        if rounds > crate::ROUNDS_MAX {
            return Err(Error::RoundsLimit(rounds));
        }
        self.load_as(name, engine, memory, Some(rounds))
    }

    fn load_as(
        &self,
        name: &str,
        engine: Engine,
        memory: u32,
        rounds_max: Option<u32>,
    ) -> Result<Program, Error> {
        let index = self.index(name)?;
        // What is wrong with the one that was asked for is said before what is wrong with others.
        let verified = self.verify_at(index, memory)?;
        let led_to = self.file.led_to(index);
        if led_to.is_empty() {
            let programs = vec![(index as u32, verified)];
            return Program::new(Arc::clone(&self.segment), programs, false, engine, rounds_max);
        }
        let others = led_to.into_iter().filter(|other| *other != index);
        let others = others.map(|other| Ok((other as u32, self.verify_at(other, memory)?)));
        let mut programs = vec![(index as u32, verified)];
        programs.extend(others.collect::<Result<Vec<_>, Error>>()?);
        Program::new(Arc::clone(&self.segment), programs, true, engine, rounds_max)
    }

    /// Runs a program that nobody verified in the interpreter that checks each access, for so many instructions at most.
    ///
    /// # Errors
    /// [`Error::NoProgram`]; [`Error::Fault`] where it does what it may not, or goes on for longer.
    pub fn run_unverified<'c>(
        &self,
        name: &str,
        context: impl Into<ContextMut<'c>>,
        instructions_max: u64,
    ) -> Result<u64, Error> {
        let object = &self.file.object;
        let program = &object.programs[self.index(name)?];
        let environment = Environment { segment: &self.segment };
        let result =
            weir_interp::run_unverified(program, &object.maps, &environment, context, instructions_max);
        result.map_err(|fault| Error::Fault(format!("{name}: {fault}")))
    }

    fn index(&self, name: &str) -> Result<usize, Error> {
        let found = self.programs().position(|program| program == name);
        found.ok_or_else(|| Error::NoProgram(format!("no program is named `{name}`")))
    }
}

/// The maps, with the contents that the file gives them.
fn segment(file: &ObjectFile) -> Result<Segment, Error> {
    // All programs on per-CPU maps claim a lane, before it is known which of them need one: that costs a run 3 ns, and
    // an addition on the shared lane 2.
    let has_lanes = file.object.maps.iter().any(|map| map.kind.is_per_cpu());
    let plan = if has_lanes { SegmentLayout::plan_claimable } else { SegmentLayout::plan };
    let layout = plan(&file.object.maps, local::possible_cpus());
    let layout = layout.map_err(|error| Error::Maps(error.to_string()))?;
    let segment = Segment::create_local(layout, &Identity::default()).map_err(Error::Memory)?;
    segment.fill(&file.maps).map_err(|(_, error)| error)?;
    Ok(segment)
}
