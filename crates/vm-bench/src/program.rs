//! A file of `tests/vm`, compiled by clang for each kind of engine.
//!
//! Every build has -O2. For BPF there are no built-in functions: loops that clear or copy memory stay loops, since
//! bpf has no memset. Native code is clang's for plain x86-64, position independent.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail, ensure};
use weir_ebpf::elf::{self, ObjectFile};

use crate::native::Native;

/// The program whose time is taken off that of the others.
pub const EMPTY: &str = "empty";
/// The same for operations on maps.
pub const LOOP: &str = "op_loop";
/// Operations that a program of the group does.
pub const OPERATIONS: u32 = 1000;

/// What a program is there for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// To be run.
    Program,
    /// To be verified and compiled.
    Large,
    /// For what an operation on a map takes.
    Operation,
}

impl Group {
    /// The group that a file belongs to by its name.
    pub fn of(name: &str) -> Group {
        match name.split_once('_') {
            Some(("large", _)) => Group::Large,
            Some(("op", _)) => Group::Operation,
            _ => Group::Program,
        }
    }
}

/// Instructions without maps, for virtual machines that lend a program its memory in r1.
pub const RAW_CPU: &str = "v3";
/// The same, for machines whose 32-bit arithmetic is not RFC 9669's, or that lack it.
pub const RAW_CPU_OLD: &str = "v2";

/// One program, ready for each engine.
#[derive(Debug)]
pub struct Program {
    /// Of the file, without its end.
    pub name: String,
    /// For weir and the kernel.
    pub object: ObjectFile,
    /// Programs without maps; none of a program that needs some.
    pub raw: Option<Raw>,
    pub native: Native,
}

/// The instructions' bytes of a program whose r1 is its memory, for either cpu.
#[derive(Clone, Debug)]
pub struct Raw {
    pub modern: Vec<u8>,
    pub old: Vec<u8>,
}

/// Where the files are.
pub fn folder() -> PathBuf {
    testkit::paths::root().join("tests/vm")
}

/// Every program by name, in order.
pub fn names() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder()).with_context(|| format!("reading {}", folder().display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "c") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

/// Compiles the file of that name for weir and the kernel alone: a quarter of what [`compile`] does.
pub fn compile_object(name: &str) -> Result<ObjectFile> {
    Build::of(name)?.whole()
}

/// Compiles the file of that name; objects go to a folder of this process.
pub fn compile(name: &str) -> Result<Program> {
    let build = Build::of(name)?;
    let object = build.whole()?;
    let shared_object = build.native()?;
    let native = Native::open(&shared_object).with_context(|| name.to_owned());
    // An open object needs no name.
    fs::remove_file(&shared_object)?;
    let native = native?;
    let raw = match native.function() {
        Some(_) => Some(Raw { modern: build.raw(RAW_CPU)?, old: build.raw(RAW_CPU_OLD)? }),
        None => None,
    };
    Ok(Program { name: name.to_owned(), object, raw, native })
}

struct Build<'a> {
    source: PathBuf,
    /// Of what is compiled, without an extension.
    stem: PathBuf,
    name: &'a str,
}

impl<'a> Build<'a> {
    fn of(name: &'a str) -> Result<Build<'a>> {
        let source = folder().join(format!("{name}.c"));
        ensure!(source.exists(), "no program {name}: {} is not there", source.display());
        let folder = testkit::paths::target().join("vm-bench");
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        // Tests run at the same time, in one process or several, and must not read what another is writing.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let stem = folder.join(format!("{name}-{}-{number}", std::process::id()));
        Ok(Build { source, stem, name })
    }

    /// The program whose memory is the value of an array map.
    fn whole(&self) -> Result<ObjectFile> {
        let object = self.object(&["-mcpu=v3", "-DVM_MAP"])?;
        ensure!(
            object.object.programs.len() == 1,
            "{}: {} programs",
            self.name,
            object.object.programs.len()
        );
        Ok(object)
    }

    fn object(&self, options: &[&str]) -> Result<ObjectFile> {
        let output = self.stem.with_extension("o");
        self.clang(&[&["-target", "bpf", "-fno-builtin"], options].concat(), &output)?;
        let bytes = fs::read(&output).with_context(|| output.display().to_string());
        fs::remove_file(&output)?;
        elf::read(&bytes?).with_context(|| self.name.to_owned())
    }

    fn raw(&self, cpu: &str) -> Result<Vec<u8>> {
        let file = self.object(&[&format!("-mcpu={cpu}")])?;
        let [program] = &file.object.programs[..] else {
            bail!("{}: {} programs", self.name, file.object.programs.len());
        };
        ensure!(file.object.maps.is_empty(), "{}: has data of its own: {:?}", self.name, file.object.maps);
        Ok(program.insns.iter().flat_map(|insn| insn.to_bytes()).collect())
    }

    fn native(&self) -> Result<PathBuf> {
        let output = self.stem.with_extension("so");
        self.clang(&["-fPIC", "-shared", "-DVM_NATIVE"], &output)?;
        Ok(output)
    }

    fn clang(&self, options: &[&str], output: &Path) -> Result<()> {
        let mut clang = Command::new("clang");
        clang.args(["-O2", "-g", "-Wall", "-Werror"]).args(options).arg(&self.source).arg("-o").arg(output);
        if !options.contains(&"-shared") {
            clang.arg("-c");
        }
        let done = clang.output().context("clang (a Debian package of that name)")?;
        ensure!(
            done.status.success(),
            "clang {}: {}",
            self.source.display(),
            String::from_utf8_lossy(&done.stderr).lines().next().unwrap_or_default()
        );
        Ok(())
    }
}
