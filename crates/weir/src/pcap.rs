//! `weir pcap`: packet filters by hand.
//!
//! In: an expression of pcap-filter(7) and what it is compiled for, a capture file ([`eval`]). Out: text on standard output.
//! Names are looked up as the system has them ([`system_names`]). Everything a stage says comes from its crate; this only
//! calls one after the other.

pub(crate) mod engine;

pub(crate) mod eval;

use std::io::{self, Read as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use weir_cbpf::text;
use weir_ebpf::{Object, asm};
use weir_pcap_filter::ir::ContextField;
use weir_pcap_filter::{LINK_TYPES, LinkType, Options};
use weir_pcap_names::SystemNames;
use weir_source::SourceFile;

use crate::args::filter::Engine;
use crate::args::pcap::{Compile, Expression, Given, Names, Pcap, PcapCommand, Stage};
use crate::failure::Failure;
use crate::pcap::engine::Ready;
use crate::print::print;

/// The name of the program that an expression becomes.
pub(crate) const PROGRAM: &str = "filter";

/// A failure, and the expression that its spans are in.
type Failed = (Failure, Option<SourceFile>);

/// Does what `args` say. The error comes with the expression as its source.
pub(crate) fn pcap(args: &Pcap) -> Result<ExitCode, Failed> {
    match &args.command {
        PcapCommand::Compile(args) => {
            let (source, asked) = asked(&args.given, &args.expression)?;
            compile(args, &source, &asked).map_err(|failure| (failure, Some(source)))
        }
        PcapCommand::Check(args) => {
            let (source, asked) = asked(&args.given, &args.expression)?;
            let compiled = asked.filter(&source.text, asked.link_type());
            compiled.map(|_| ExitCode::SUCCESS).map_err(|failure| (failure, Some(source)))
        }
        PcapCommand::Eval(args) => match &args.cbpf {
            Some(program) => {
                let done = classic_program(program).and_then(|program| eval::program(args, program));
                done.map_err(|failure| (failure, None))
            }
            None => {
                let (source, asked) = asked(&args.given, &args.expression)?;
                eval::expression(args, &source.text, &asked).map_err(|failure| (failure, Some(source)))
            }
        },
        PcapCommand::List => print(&link_types()).map_err(|failure| (failure, None)),
    }
}

/// What an expression is compiled for.
struct Asked<'a> {
    given: &'a Given,
    names: SystemNames,
}

impl Asked<'_> {
    fn link_type(&self) -> LinkType {
        self.given.link_type.unwrap_or(LinkType::EN10MB)
    }

    fn filter(&self, text: &str, link_type: LinkType) -> Result<weir_pcap_filter::Filter, Failure> {
        let (snaplen, netmask) = (self.given.snaplen(), self.given.netmask());
        let options = Options { link_type, snaplen, netmask, mode: self.given.mode };
        weir_pcap_filter::compile(text, &options, &self.names).map_err(Failure::Script)
    }

    fn ready(&self, text: &str, link_type: LinkType, engine: Engine) -> Result<Ready, Failure> {
        let filter = self.filter(text, link_type)?;
        known_of_files(&filter)?;
        Ready::of(filter.program(PROGRAM).map_err(refused)?, filter.asks_context(), engine)
    }
}

/// Where names are looked up.
pub(crate) fn system_names(args: &Names) -> Result<SystemNames, Failure> {
    let mut names = SystemNames::default();
    let in_file = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| Failure::Refused(anyhow!(error).context(format!("cannot read {path}")))
    };
    if let Some(path) = &args.hosts {
        names = names.hosts(path).map_err(in_file(path))?;
    }
    if let Some(path) = &args.ethers {
        names = names.ethers(path).map_err(in_file(path))?;
    }
    if let Some(path) = &args.networks {
        names = names.networks(path).map_err(in_file(path))?;
    }
    Ok(names)
}

/// Whether capture files say all that the filter asks for.
pub(crate) fn known_of_files(filter: &weir_pcap_filter::Filter) -> Result<(), Failure> {
    for (field, word) in [(ContextField::Ifindex, "ifindex"), (ContextField::Hash, "hash")] {
        if filter.asks(field) {
            return Err(Failure::Refused(anyhow!(
                "`{word}` is not known of packets in capture files; leave it out, or ask for `queue` and `inbound`"
            )));
        }
    }
    Ok(())
}

/// The expression, and what it is compiled for.
fn asked<'a>(given: &'a Given, expression: &Expression) -> Result<(SourceFile, Asked<'a>), Failed> {
    let asked = || -> Result<(SourceFile, Asked<'a>), Failure> {
        let source = match &expression.file {
            Some(path) => from_file(path)?,
            None => SourceFile { name: "<filter>".to_owned(), text: expression.words.join(" ") },
        };
        Ok((source, Asked { given, names: system_names(&given.names)? }))
    };
    asked().map_err(|failure| (failure, None))
}

/// As tcpdump -F: comments are blanks, and lines go on as one expression. Offsets stay those of the file.
fn from_file(path: &Path) -> Result<SourceFile, Failure> {
    let bytes = contents(path)?;
    let text = weir_source::text_of(bytes).with_context(|| path.display().to_string());
    let mut is_comment = false;
    let blank = |c: char| {
        is_comment = (is_comment || c == '#') && c != '\n';
        // As many bytes as there were.
        if is_comment { " ".repeat(c.len_utf8()) } else { c.to_string() }
    };
    let text = text.map_err(Failure::Refused)?.chars().map(blank).collect();
    Ok(SourceFile { name: path.display().to_string(), text })
}

/// LIMIT: bytes of a file with an expression or a program. Expressions have 4 MiB at most, with their comments perhaps more.
const CONTENTS_BYTES_MAX: u64 = 16 << 20;

/// All of a small file, or of standard input (-).
fn contents(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let mut read = || -> io::Result<usize> {
        let input = eval::input(path)?;
        input.take(CONTENTS_BYTES_MAX + 1).read_to_end(&mut bytes)
    };
    let read = read().with_context(|| format!("cannot read {}", path.display()));
    if read.map_err(Failure::Refused)? as u64 > CONTENTS_BYTES_MAX {
        let message = anyhow!("{} has more than {CONTENTS_BYTES_MAX} bytes, the limit", path.display());
        return Err(Failure::Refused(message));
    }
    Ok(bytes)
}

/// Prints the stage that is asked for.
fn compile(args: &Compile, source: &SourceFile, asked: &Asked<'_>) -> Result<ExitCode, Failure> {
    let filter = asked.filter(&source.text, asked.link_type())?;
    print(&match args.emit {
        Stage::Ast => {
            let tree = weir_pcap_filter::parse(&source.text, asked.given.mode);
            tree.map_err(|fault| Failure::Script(vec![fault]))?
                .map_or_else(String::new, |tree| tree.to_string())
        }
        Stage::Ir => filter.graph.to_string(),
        Stage::Cbpf => text::print(&filter.classic().map_err(refused)?, args.form()),
        Stage::Ebpf => asm::print(&Object {
            maps: Vec::new(),
            programs: vec![filter.program(PROGRAM).map_err(refused)?],
        }),
        Stage::Asm => engine::machine_code(filter.program(PROGRAM).map_err(refused)?)?,
    })
}

/// A program of classic BPF, in any of its forms, as a classifier.
fn classic_program(path: &Path) -> Result<weir_ebpf::Program, Failure> {
    let bytes = contents(path)?;
    engine::of_classic(&bytes, PROGRAM).map_err(|failure| failure.of_file(path))
}

fn link_types() -> String {
    let row = |(number, name, about): &(u16, &str, &str)| format!("{name:<24} {number:>3}  {about}\n");
    LINK_TYPES.iter().map(row).collect()
}

pub(crate) fn refused(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::Refused(anyhow!(error))
}
