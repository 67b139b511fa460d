//! Folders → the traces in them: classes, plans, and streams with their files in the order of time.
//!
//! A trace is a folder with a file `metadata`; below others they are looked for, as deep as folders go, without following links. Those
//! with the same UUID are parts of one (LTTng's rotated chunks): the richest metadata counts for all. Files of the same class and
//! number are one stream. Empty files, hidden ones and what is no file are left out.

use std::fs;
use std::path::{Path, PathBuf};

use crate::class::{TraceClass, Value};
use crate::error::Error;
use crate::limits::{FILES_MAX, FOLDERS_MAX};
use crate::read::metadata;
use crate::read::plan::{self, Plans, Style};
use crate::read::stream::{self, First, Part, Stream};

/// One trace, ready to be read.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) class: TraceClass,
    pub(crate) plans: Plans,
    /// The host, where the environment names it, and where the trace is below the place that was given.
    pub(crate) name: String,
    /// With the number of each.
    pub(crate) streams: Vec<(u64, Stream)>,
    /// Files of which not even the first packet can be read.
    pub(crate) damaged: Vec<Error>,
    /// Where its files are.
    pub(crate) folders: Vec<PathBuf>,
}

/// All traces at or below these places.
pub(crate) fn open(places: &[PathBuf], style: Style) -> Result<Vec<Trace>, Error> {
    let mut folders = Vec::new();
    for place in places {
        let before = folders.len();
        find(place, &mut folders)?;
        if folders.len() == before {
            return Err(Error::NoTrace { path: place.clone() });
        }
    }
    let mut found: Vec<(TraceClass, Vec<PathBuf>)> = Vec::new();
    for folder in folders {
        let class = metadata::read(&folder.join("metadata"))?;
        let same = found.iter_mut().find(|(other, _)| other.uuid.is_some() && other.uuid == class.uuid);
        match same {
            Some((other, folders)) => {
                if classes(&class) > classes(other) {
                    *other = class;
                }
                folders.push(folder);
            }
            None => found.push((class, vec![folder])),
        }
    }
    let mut traces = Vec::new();
    for (class, folders) in found {
        let mut all = Vec::new();
        for folder in &folders {
            all.extend(parts(folder)?);
        }
        // SANITY: a trace is found in a folder.
        let folder = folders.first().expect("a folder");
        let below = places.iter().find_map(|place| folder.strip_prefix(place).ok()).unwrap_or(Path::new(""));
        let trace = trace(class, &folder.join("metadata"), below, all, style)?;
        traces.push(Trace { folders, ..trace });
    }
    Ok(traces)
}

/// A trace whose files are bytes.
pub(crate) fn of_memory(metadata: &[u8], streams: Vec<Vec<u8>>, style: Style) -> Result<Trace, Error> {
    of_class(metadata::parse(Path::new("metadata"), metadata)?, streams, style)
}

pub(crate) fn of_class(class: TraceClass, streams: Vec<Vec<u8>>, style: Style) -> Result<Trace, Error> {
    let held = |(index, bytes): (usize, Vec<u8>)| Part {
        path: PathBuf::from(format!("stream_{index}")),
        bytes: bytes.len() as u64,
        held: Some(bytes.into()),
    };
    let parts = streams.into_iter().filter(|bytes| !bytes.is_empty()).enumerate().map(held).collect();
    trace(class, Path::new("metadata"), Path::new(""), parts, style)
}

fn classes(trace: &TraceClass) -> usize {
    trace.streams.iter().map(|stream| 1 + stream.events.len()).sum()
}

/// Folders with metadata, in the order of their names.
fn find(place: &Path, folders: &mut Vec<PathBuf>) -> Result<(), Error> {
    let mut open = vec![place.to_owned()];
    let mut seen = 0;
    while let Some(folder) = open.pop() {
        seen += 1;
        if seen > FOLDERS_MAX {
            return Err(Error::TooMuch {
                path: place.to_owned(),
                what: "folders",
                limit: FOLDERS_MAX as u64,
            });
        }
        if folder.join("metadata").is_file() {
            folders.push(folder);
            continue;
        }
        let below = entries(&folder)?.into_iter().filter(|(_, kind)| kind.is_dir()).map(|(path, _)| path);
        // The first of them is looked into first.
        open.extend(below.rev());
    }
    Ok(())
}

/// What is in a folder, in the order of names.
fn entries(folder: &Path) -> Result<Vec<(PathBuf, fs::FileType)>, Error> {
    let failed = |source| Error::File { path: folder.to_owned(), what: "list", source };
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        entries.push((entry.path(), entry.file_type().map_err(failed)?));
    }
    entries.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(entries)
}

/// `metadata`: what errors call that file; `below`: where the trace is, seen from the place that was given.
fn trace(
    class: TraceClass,
    metadata: &Path,
    below: &Path,
    parts: Vec<Part>,
    style: Style,
) -> Result<Trace, Error> {
    let path = metadata.to_owned();
    if parts.len() > FILES_MAX {
        return Err(Error::TooMuch { path, what: "files", limit: FILES_MAX as u64 });
    }
    let plans = plan::compile(&class, style).map_err(|message| Error::Class { path, message })?;
    let mut damaged = Vec::new();
    let mut files: Vec<(First, Part)> = Vec::new();
    for part in parts {
        match stream::first(&class, &plans, &part) {
            Ok(first) => files.push((first, part)),
            Err(error) => damaged.push(error),
        }
    }
    // Files of one stream behind one another, by time; those without a number or a time stay alone.
    let key = |first: &First| {
        (first.class, first.id.filter(|_| first.begin.is_some()).is_none(), first.id, first.begin)
    };
    files.sort_by_key(|(first, _)| key(first));
    let mut streams: Vec<(u64, Stream)> = Vec::new();
    let mut last = None;
    let mut unnumbered = 0;
    for (first, part) in files {
        let id = first.id.filter(|_| first.begin.is_some());
        if id.is_some() && last == Some((first.class, id)) {
            // SANITY: the file before was put there.
            streams.last_mut().expect("a stream").1.parts.push(part);
            continue;
        }
        last = Some((first.class, id));
        let number = id.unwrap_or_else(|| {
            unnumbered += 1;
            unnumbered - 1
        });
        let registers = plans.streams[first.class].registers;
        streams.push((number, Stream::new(first.class, vec![part], registers)));
    }
    let host = class.environment.iter().find(|(name, _)| name == "hostname");
    let host = match host {
        Some((_, Value::Str(name))) => Path::new(name),
        _ => Path::new(""),
    };
    let name = if below.as_os_str().is_empty() { host.to_owned() } else { host.join(below) };
    let name = name.display().to_string();
    Ok(Trace { class, plans, name, streams, damaged, folders: Vec::new() })
}

/// The files of streams in a trace's folder.
pub(crate) fn parts(folder: &Path) -> Result<Vec<Part>, Error> {
    let mut parts = Vec::new();
    for (path, _) in entries(folder)? {
        let name = path.file_name().unwrap_or_default();
        if name == "metadata" || name.as_encoded_bytes().first() == Some(&b'.') {
            continue;
        }
        let about = fs::metadata(&path);
        let about = about.map_err(|source| Error::File { path: path.clone(), what: "look at", source })?;
        if about.is_file() && about.len() > 0 {
            parts.push(Part { path, bytes: about.len(), held: None });
        }
    }
    Ok(parts)
}
