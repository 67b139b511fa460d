//! `weir capture`: packets of interfaces or files → pcapng, printed packets, counts.
//!
//! The work is weir-capture's. Here are its edges: filters with the system's names ([`filters`]), signals and clocks ([`run`]), what is said on
//! standard error ([`report`]), the program that prints ([`printer`]), how long packets are in an application ([`latency`]), and Wireshark's questions ([`extcap`]).

mod filters;

mod input;

mod dpdk;

mod latency;

mod printer;

mod report;

mod run;

mod extcap;

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::anyhow;
use weir_capture::files::Files;
use weir_capture::live::{self, Interfaces};
use weir_capture::{Capture, Error, Filters, Moment, Rotation, Save, Sink, Source};
use weir_pcap_names::SystemNames;
use weir_pcapng::{Address, Section};
use weir_source::SourceFile;

use crate::args::capture::Capture as Args;
use crate::capture::dpdk::Dpdk;
use crate::capture::filters::Expression;
use crate::capture::latency::Latency;
use crate::capture::printer::Printer;
use crate::capture::report::Reporter;
use crate::capture::run::Signals;
use crate::failure::Failure;
use crate::pcap;
use crate::print::print_on;

/// A failure, and the filter that its spans are in.
type Failed = (Failure, Option<SourceFile>);

/// Does what `args` say.
pub(crate) fn capture(args: &Args) -> Result<ExitCode, Failed> {
    let plain = |failure| (failure, None);
    if let Some(done) = extcap::answer(args).map_err(plain)? {
        return Ok(done);
    }
    let asked = Asked::of(args).map_err(plain)?;
    let text = asked.filter.clone().unwrap_or_default();
    let source = SourceFile { name: "<filter>".to_owned(), text };
    captured(args, &asked).map_err(|failure| (failure, Some(source)))
}

/// What is captured, and where to.
struct Asked {
    interfaces: Vec<String>,
    /// None: packets are not written.
    output: Option<PathBuf>,
    rotation: Rotation,
    filter: Option<String>,
}

impl Asked {
    fn of(args: &Args) -> Result<Asked, Failure> {
        let filter = match (&args.filter, &args.extcap.extcap_capture_filter) {
            (Some(one), Some(other)) if !one.trim().is_empty() && !other.trim().is_empty() => {
                Some(format!("({one}) and ({other})"))
            }
            (one, other) => one.iter().chain(other).find(|text| !text.trim().is_empty()).cloned(),
        };
        let rotation = Rotation { bytes: args.rotate_size, time: args.rotate_time, files: args.files_kept };
        if let Some(interface) = &args.extcap.extcap_interface {
            let interfaces = vec![extcap::real_name(interface).to_owned()];
            return Ok(Asked { interfaces, output: args.extcap.fifo.clone(), rotation, filter });
        }
        if args.output.is_none() && !args.print && !args.stats && !args.latency {
            return Err(Failure::Usage(anyhow!(
                "nothing is to be done with packets: -w FILE writes them, --print prints them, --stats counts them, --latency measures them"
            )));
        }
        if rotation.files.is_some() && !rotation.is_any() {
            return Err(Failure::Usage(anyhow!("--files needs --rotate-size or --rotate-time")));
        }
        let is_pipe = args.output.as_deref() == Some(Path::new("-"));
        if is_pipe && rotation.is_any() {
            return Err(Failure::Usage(anyhow!("standard output cannot be rotated; name a file with -w")));
        }
        if is_pipe && args.latency {
            return Err(Failure::Usage(anyhow!("--latency prints where -w - writes; name a file with -w")));
        }
        if is_pipe && args.print {
            return Err(Failure::Usage(anyhow!("--print prints where -w - writes; name a file with -w")));
        }
        Ok(Asked { interfaces: args.interfaces.clone(), output: args.output.clone(), rotation, filter })
    }
}

fn captured(args: &Args, asked: &Asked) -> Result<ExitCode, Failure> {
    let names = pcap::system_names(&args.names)?;
    // Syntax errors are reported before anything is opened.
    let expression = asked.filter.as_deref().map(|text| Expression::new(text, args, &names)).transpose()?;
    let failed = |error| failure(error, expression.as_ref());
    let signals = Signals::block()?;
    let mut reporter = Reporter::new(args.stats, args.quiet);
    let source = source(args, asked, expression.as_ref(), &signals, &mut reporter).map_err(failed)?;
    let mut printer = if args.print { Some(Printer::start()?) } else { None };
    let now = moment();
    let (mut sinks, pipe) = sinks(args, asked, &names, printer.as_mut(), now).map_err(failed)?;
    let latency = args.latency.then(Rc::<RefCell<Latency>>::default);
    sinks.extend(latency.iter().map(Latency::sink));
    let filters = expression.as_ref().map(|expression| Box::new(expression) as Box<dyn Filters + '_>);
    let mut capture = Capture::new(source, filters, sinks, args.snaplen(), args.count, now);
    let ran = run::run(&mut capture, &signals, pipe.as_ref(), &mut reporter);
    let finished = capture.finish(moment());
    let tallies = capture.tallies();
    drop(capture);
    if let Some(printer) = printer {
        printer.end()?;
    }
    if let Ok(tallies) = tallies {
        reporter.end(&tallies);
    }
    if let Some(latency) = latency {
        let latency = latency.borrow();
        print_on(&latency.text())?;
        reporter.says(&latency.summary());
    }
    ran.and(finished).map_err(|error| failure(error, expression.as_ref()))?;
    Ok(ExitCode::SUCCESS)
}

fn source<'a>(
    args: &Args,
    asked: &Asked,
    expression: Option<&'a Expression<'a>>,
    signals: &Signals,
    reporter: &mut Reporter,
) -> Result<Box<dyn Source + 'a>, Error> {
    if let Some(dpdk) = &args.dpdk {
        let source = Dpdk::start(dpdk, args, expression)?;
        source.names().for_each(|name| reporter.begins_in_application(name, expression.is_some()));
        return Ok(Box::new(source));
    }
    if !args.files.is_empty() {
        let open = input::opener(signals.descriptor());
        return Ok(Box::new(Files::new(args.files.clone(), args.snaplen(), asked.filter.clone(), open)));
    }
    let options = live::Options {
        snaplen: args.snaplen(),
        ring_bytes: args.buffer,
        is_promiscuous: !args.is_not_promiscuous,
    };
    let filter = expression.map(|expression| (expression.text(), expression as &dyn Filters));
    let interfaces = Interfaces::open(&asked.interfaces, options, filter)?;
    for (interface, by) in interfaces.interfaces() {
        reporter.begins(interface.name.as_deref().unwrap_or_default(), by);
    }
    Ok(Box::new(interfaces))
}

type Sinks<'a> = Vec<Box<dyn Sink + 'a>>;

/// What packets go to, and the pipe among that, whose reader may go.
fn sinks<'a>(
    args: &Args,
    asked: &Asked,
    names: &SystemNames,
    printer: Option<&mut Printer>,
    now: Moment,
) -> Result<(Sinks<'a>, Option<OwnedFd>), Error> {
    let mut sinks: Sinks<'_> = Vec::new();
    let mut pipe = None;
    if let Some(path) = &asked.output {
        let mut save = if path == Path::new("-") || args.extcap.fifo.is_some() {
            let failed = |error| Error::Create { path: path.clone(), error };
            let output = opened_pipe(path).map_err(failed)?;
            pipe = Some(output.try_clone().map_err(failed)?.into());
            Save::to_pipe(Box::new(output), section(), now)?
        } else {
            Save::to_file(path, asked.rotation, section(), now)?
        };
        if args.resolve {
            save.add_names(&listed(names))?;
        }
        sinks.push(Box::new(save));
    }
    if let Some(input) = printer.and_then(Printer::input) {
        sinks.push(Box::new(Save::to_pipe(Box::new(input), section(), now)?));
    }
    Ok((sinks, pipe))
}

/// Names as a file has them.
fn listed(names: &SystemNames) -> Vec<(Address, Vec<String>)> {
    let address = |address| match address {
        IpAddr::V4(address) => Address::Ipv4(address),
        IpAddr::V6(address) => Address::Ipv6(address),
    };
    let hosts = names.listed_hosts().into_iter().map(|(of, names)| (address(of), names));
    let ethers = names.listed_ethers().into_iter().map(|(of, names)| (Address::Eui48(of), names));
    hosts.chain(ethers).collect()
}

/// Standard output without std's buffer, or a named pipe.
fn opened_pipe(path: &Path) -> io::Result<File> {
    match path == Path::new("-") {
        true => Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
        false => File::options().write(true).open(path),
    }
}

/// What a file says of this machine and this program.
fn section() -> Section {
    let application = Some(format!("weir {}", env!("CARGO_PKG_VERSION")));
    Section { hardware: processor(), os: live::os(), application, comments: Vec::new() }
}

/// As the kernel names it.
fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn failure(error: Error, expression: Option<&Expression<'_>>) -> Failure {
    match error {
        error if error.is_reader_gone() => Failure::ReaderGone,
        Error::Filter { error, .. } => {
            let kept = expression.and_then(Expression::failure);
            kept.unwrap_or_else(|| Failure::Refused(anyhow!("{error}")))
        }
        error @ Error::NoInterface { .. } => {
            Failure::Refused(anyhow!("{error}; `ip link` lists those that there are"))
        }
        error @ (Error::Interface { .. } | Error::Gone { .. } | Error::Write { .. } | Error::Source(_)) => {
            Failure::Machine(anyhow!(error))
        }
        error => Failure::Refused(anyhow!(error)),
    }
}

/// This moment, by both clocks.
fn moment() -> Moment {
    static BEGUN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Moment {
        monotonic: BEGUN.get_or_init(Instant::now).elapsed(),
        epoch_ns: u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX),
    }
}
