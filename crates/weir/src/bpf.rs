//! `weir bpf`: eBPF objects by hand.
//!
//! In: the command line. Out: text on standard output, or an object file. Each subcommand reads its input with
//! [`input`], hands it to the stage it is named after, and prints; running is [`run`]. A file is an object if it begins
//! as ELF files do, else assembly text.

mod input;
mod listing;
mod run;

mod given;

mod kernel;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use weir_codegen::Compiled;
use weir_ebpf::asm;
use weir_ebpf::elf::{self, ObjectFile};
use weir_ir::{SiteSpec, Trigger};
use weir_run::object;
use weir_source::SourceFile;
use weir_verifier::Limits;

use crate::args::bpf::{Bpf, BpfCommand, Build};
use crate::failure::{Failure, Report as _};
use crate::print::print;

/// Does what `args` say. The error comes with the source that its spans are in.
pub(crate) fn bpf(args: &Bpf) -> Result<ExitCode, (Failure, Option<SourceFile>)> {
    let btf = args.btf.as_deref();
    let read = |path| object::read(path, btf);
    let done = match &args.command {
        BpfCommand::Dis { file } => read(file).and_then(|file| disassemble(&file)),
        BpfCommand::Asm { file, output } => read(file).and_then(|file| write(&file, output)),
        BpfCommand::Verify { file, verbose } => read(file).and_then(|found| verify(&found, file, *verbose)),
        BpfCommand::Run(run) => run::run(run, btf),
        BpfCommand::Build(args) => return build(args),
    };
    done.map_err(|failure| (failure, None))
}

fn disassemble(file: &ObjectFile) -> Result<ExitCode, Failure> {
    print(&asm::print_file(file))
}

/// Verifies every program: one line for each, refusals on standard error.
fn verify(file: &ObjectFile, path: &Path, verbose: bool) -> Result<ExitCode, Failure> {
    let mut refused = false;
    for (index, program) in file.object.programs.iter().enumerate() {
        let verdict = if verbose {
            let (verdict, states) = object::observe_one(file, index, &Limits::default());
            print(&format!("{}:\n", program.name))?;
            print(&listing::listing(file, index, verdict.as_ref().ok(), &states))?;
            verdict
        } else {
            object::verify_one(file, index)
        };
        match verdict {
            Ok(verified) => {
                let (slots, stack) = (program.insns.len(), verified.stack_bytes());
                print(&format!(
                    "{}: accepted: {slots} instructions, {stack} bytes of stack\n",
                    program.name
                ))?;
            }
            Err(failure) => {
                refused = true;
                failure.of_file(path).report(None);
            }
        }
    }
    if file.object.programs.is_empty() {
        return Err(Failure::Refused(anyhow!("{} has no programs", path.display())));
    }
    Ok(if refused { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Compiles a script and writes the object.
fn build(args: &Build) -> Result<ExitCode, (Failure, Option<SourceFile>)> {
    let compiled = crate::run::compile(args.program.as_deref(), &args.arguments)?;
    write(&object_file(compiled), &args.output).map_err(|failure| (failure, None))
}

/// The file of a compiled script. A program with one place names it in its section, as libbpf attaches it.
fn object_file(compiled: Compiled) -> ObjectFile {
    let mut file = ObjectFile::of(compiled.object);
    for (origin, trigger) in file.programs.iter_mut().zip(&compiled.triggers) {
        let kind = match trigger {
            Trigger::Uprobe { .. } => "uprobe",
            // At a return a program is one of a session as well.
            Trigger::Uretprobe { .. } | Trigger::Session { .. } => "uprobe.session",
            // Without a place that a section names.
            Trigger::Usdt { .. }
            | Trigger::Begin
            | Trigger::End
            | Trigger::Interval { .. }
            | Trigger::Asked { .. }
            | Trigger::Kernel { .. }
            | Trigger::Filter => continue,
        };
        if let [SiteSpec { binary, function, address: None, .. }] = trigger.sites() {
            let section = format!("{kind}/{binary}:{function}");
            if section.len() <= SECTION_BYTES_MAX {
                origin.section = section;
            }
        }
    }
    file
}

/// Most bytes of a section's name that are written; longer places are left to whoever loads the object.
const SECTION_BYTES_MAX: usize = 200;

fn write(file: &ObjectFile, output: &Path) -> Result<ExitCode, Failure> {
    let bytes = elf::write(file).map_err(|error| Failure::Refused(anyhow!(error)))?;
    let written = std::fs::write(output, bytes).with_context(|| format!("writing {}", output.display()));
    written.map_err(Failure::Machine)?;
    Ok(ExitCode::SUCCESS)
}

/// A program with what the verifier knew at each instruction.
pub(crate) fn observed(file: &ObjectFile, index: usize, limits: &Limits) -> Result<String, Failure> {
    let (verdict, states) = object::observe_one(file, index, limits);
    Ok(listing::listing(file, index, Some(&verdict?), &states))
}

fn refused(message: &str) -> Failure {
    Failure::Refused(anyhow!("{message}"))
}
