//! `weir filter`: event filters by hand.
//!
//! In: a filter's text and the fields of one event as JSON, which are its schema too ([`event`]); or the schema is that of a live
//! program's event ([`live`]). Out: text on standard output. Everything a stage says comes from its crate; this only calls one after the
//! other.

mod event;
mod live;

use std::process::ExitCode;

use anyhow::{Context, anyhow};
use weir_codegen::Options;
use weir_ebpf::elf::ObjectFile;
use weir_event::schema::Schema;
use weir_interp::Environment;
use weir_ir::Module;
use weir_rt::local::{self, LocalProgram};
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_run::object;
use weir_source::{Diagnostic, SourceFile};
use weir_verifier::Limits;

use crate::args::filter::{Engine, Filter, FilterCommand, Given};
use crate::bpf;
use crate::failure::Failure;
use crate::filter::event::Event;
use crate::print::{print, tell_text};

/// Bytes of the ring that every object has, and filters do not use: the least.
const RING_BYTES: u32 = 4096;

/// Does what `args` say. The error comes with the filter as its source.
pub(crate) fn filter(args: &Filter) -> Result<ExitCode, (Failure, Option<SourceFile>)> {
    let (FilterCommand::Check(given) | FilterCommand::Eval { given, .. } | FilterCommand::Explain(given)) =
        &args.command;
    let source = SourceFile { name: "<filter>".to_owned(), text: given.text.clone() };
    if let Some(event) = &given.event {
        return live::filter(&args.command, given, event).map_err(|failure| (failure, Some(source)));
    }
    let done = Event::of(&given.fields).and_then(|event| {
        let module = compile(given, &source, &event.schema)?;
        match &args.command {
            FilterCommand::Check(_) => Ok(ExitCode::SUCCESS),
            FilterCommand::Eval { engine, .. } => {
                let kept = eval(&object(&module)?, &event, *engine)?;
                print(&format!("{kept}\n"))
            }
            FilterCommand::Explain(_) => print(&explained(&source, &module, &event.limits())?),
        }
    });
    done.map_err(|failure| (failure, Some(source)))
}

/// The optimised IR; warnings go to standard error.
fn compile(given: &Given, source: &SourceFile, schema: &Schema) -> Result<Module, Failure> {
    let (mut module, warnings) =
        weir_filter::compile(&source.text, given.dialect, schema).map_err(Failure::Script)?;
    warn(source, &warnings);
    weir_ir::pass::optimise(&mut module);
    Ok(module)
}

pub(crate) fn warn(source: &SourceFile, warnings: &[Diagnostic]) {
    if !warnings.is_empty() {
        let color = std::io::IsTerminal::is_terminal(&std::io::stderr());
        tell_text(&weir_source::render(source, warnings, color));
    }
}

pub(crate) fn object(module: &Module) -> Result<ObjectFile, Failure> {
    let options = Options { ring_bytes: RING_BYTES, counts_hits: false, ..weir_codegen::Options::default() };
    let compiled = weir_codegen::compile_with(module, &options);
    Ok(compiled.map_err(|error| Failure::Refused(anyhow!(error)))?.into_file())
}

fn eval(file: &ObjectFile, event: &Event, engine: Engine) -> Result<bool, Failure> {
    let verified = object::verify_within(file, 0, &event.limits())?;
    let segment = segment(file)?;
    let mut frame = event.frame();
    let result = match engine {
        Engine::Interp => {
            let run = weir_interp::run(&verified, &Environment { segment: &segment }, &mut frame);
            run.map_err(|fault| Failure::Bug(anyhow!("{fault}")))?
        }
        Engine::Jit => {
            let executable = weir_jit::compile(&verified, &local::site(segment.layout()));
            let executable = executable.map_err(|error| Failure::Bug(anyhow!("{error}")))?;
            let program = LocalProgram::load(&executable, &segment).context("loading machine code");
            program.map_err(Failure::Machine)?.run(&mut frame)
        }
    };
    Ok(result != 0)
}

/// Every stage of a filter that is sound.
fn explained(source: &SourceFile, module: &Module, limits: &Limits) -> Result<String, Failure> {
    let ast = weir_filter::parse(&source.text).map_err(|fault| Failure::Script(vec![fault]))?;
    let file = object(module)?;
    let verified = object::verify_within(&file, 0, limits)?;
    let segment = segment(&file)?;
    let executable = weir_jit::compile(&verified, &local::site(segment.layout()));
    let executable = executable.map_err(|error| Failure::Bug(anyhow!("{error}")))?;
    let stages = [
        ("syntax tree", weir_filter::ast::tree(&ast)),
        ("intermediate representation", weir_ir::text::print(module)),
        ("eBPF, with what the verifier knows", bpf::observed(&file, 0, limits)?),
        ("machine code", weir_jit::disassemble(&executable, &file.object)),
    ];
    let text: Vec<String> = stages.iter().map(|(title, text)| format!("== {title}\n{text}")).collect();
    Ok(text.join("\n"))
}

pub(crate) fn segment(file: &ObjectFile) -> Result<Segment, Failure> {
    let layout = SegmentLayout::plan(&file.object.maps, local::possible_cpus());
    let layout = layout.map_err(|error| Failure::Refused(anyhow!(error)))?;
    let segment = Segment::create_local(layout, &Identity::default()).context("creating the maps' segment");
    let segment = segment.map_err(Failure::Machine)?;
    let filled = segment.fill(&file.maps);
    filled.map_err(|(map, error)| {
        Failure::Bug(anyhow!("map {map} does not take what it holds at first: {error}"))
    })?;
    Ok(segment)
}
