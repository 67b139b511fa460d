//! Wireshark's programs as second readers of capture files: capinfos, and tshark.
//!
//! Out: what they print. `None`: they are not installed. Anything on standard error is a warning, but what tshark says of being root.

use std::path::Path;
use std::process::Command;

/// What capinfos says of a file in its long form.
///
/// # Panics
/// If it refuses the file or warns.
pub fn capinfos(file: &Path) -> Option<String> {
    said("capinfos", &["-M"], file)
}

/// The fields of each packet, with tabs between them, a line each. An empty list: its summary.
///
/// # Panics
/// If it refuses the file or warns.
pub fn tshark(file: &Path, fields: &[&str]) -> Option<Vec<String>> {
    let mut arguments = vec!["-n"];
    if !fields.is_empty() {
        arguments.extend(["-T", "fields"]);
    }
    arguments.extend(fields.iter().flat_map(|field| ["-e", field]));
    arguments.push("-r");
    Some(said("tshark", &arguments, file)?.lines().map(str::to_owned).collect())
}

fn said(program: &str, arguments: &[&str], file: &Path) -> Option<String> {
    let output = Command::new(program).args(arguments).arg(file).output().ok()?;
    let message = String::from_utf8_lossy(&output.stderr);
    let is_warning = |line: &&str| !line.is_empty() && !line.starts_with("Running as user \"root\"");
    let warnings: Vec<&str> = message.lines().filter(is_warning).collect();
    assert!(
        output.status.success() && warnings.is_empty(),
        "{program} {}: {}: {warnings:?}",
        file.display(),
        output.status
    );
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}
