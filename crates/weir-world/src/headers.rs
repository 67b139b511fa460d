//! Headers of C, and scripts: where `#include` and `import` find them.
//!
//! Quotes look beside the file that includes, then where `-I` says; both look in the system's folders at the end. Compilers' own
//! headers (`stddef.h`) are built in, in weir-script.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use weir_ir::WorldError;

/// The largest header that is read: ten times the largest of a distribution.
const HEADER_BYTES_MAX: u64 = 16 << 20;

/// Path and text of a header.
pub(crate) fn find(
    name: &str,
    is_system: bool,
    from: Option<&str>,
    folders: &[PathBuf],
) -> Result<(String, String), WorldError> {
    let beside = from.and_then(|from| Path::new(from).parent()).unwrap_or(Path::new("."));
    let first = (!is_system).then(|| beside.to_owned());
    // Where distributions put headers.
    let own = Path::new("/usr/include").join(weir_ir::isa::native::C_HEADERS);
    let system = ["/usr/local/include".into(), own, "/usr/include".into()];
    let all = first.into_iter().chain(folders.iter().cloned()).chain(system);
    if let Some(found) = first_of(name, all, "header")? {
        return Ok(found);
    }
    let hint = match name.starts_with("linux/") {
        true => "headers of the kernel are in the package linux-libc-dev; name other folders with `-I`",
        false => "install the package that has it (libc6-dev for those of C), or name its folder with `-I`",
    };
    Err(WorldError { message: format!("the header `{name}` cannot be found"), hint: Some(hint.to_owned()) })
}

/// The same of a script: beside the one that imports it, then where `-I` says.
pub(crate) fn find_import(
    name: &str,
    from: Option<&str>,
    folders: &[PathBuf],
) -> Result<(String, String), WorldError> {
    let beside = from.and_then(|from| Path::new(from).parent()).unwrap_or(Path::new("."));
    let all = [beside.to_owned()].into_iter().chain(folders.iter().cloned());
    if let Some((path, text)) = first_of(name, all, "file")? {
        // By whatever way it is named, it is one file.
        let path = fs::canonicalize(&path).map_or(path, |path| path.display().to_string());
        return Ok((path, text));
    }
    let hint = "a path is from the folder of the script that imports it, or from one of `-I`".to_owned();
    Err(WorldError { message: format!("`{name}` cannot be found"), hint: Some(hint) })
}

/// The first of the folders that has it.
fn first_of(
    name: &str,
    folders: impl Iterator<Item = PathBuf>,
    what: &str,
) -> Result<Option<(String, String)>, WorldError> {
    for folder in folders {
        let path = folder.join(name);
        match read(&path) {
            Ok(text) => return Ok(Some((path.display().to_string(), text))),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => {
                let message = format!("the {what} {} cannot be read: {error}", path.display());
                return Err(WorldError { message, hint: Some("it must be a readable file".to_owned()) });
            }
        }
    }
    Ok(None)
}

fn read(path: &Path) -> io::Result<String> {
    // What would wait for a writer is opened without, and found to be no file.
    let file = fs::OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut bytes = Vec::new();
    file.take(HEADER_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > HEADER_BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {HEADER_BYTES_MAX} bytes")));
    }
    Ok(weir_source::without_mark(String::from_utf8_lossy(&bytes).into_owned()))
}
