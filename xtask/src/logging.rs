//! logging: builds what makes events of the records of Python's and Java's loggers (logging/), below a prefix.
//!
//! lib/libweir-logging.so, share/weir/weir_logging.py and, where there is javac, share/weir/weir-logging.jar; with the appender of Log4j 2 where Debian's
//! package has that. What is left out for want of a compiler is said.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{process, workspace};

/// Log4j 2 as Debian's liblog4j2-java has it.
const LOG4J: [&str; 2] = ["/usr/share/java/log4j-core.jar", "/usr/share/java/log4j-api.jar"];
const LOG4J_PROCESSOR: &str = "org.apache.logging.log4j.core.config.plugins.processor.PluginProcessor";

/// What was installed.
pub(crate) fn install(prefix: &Path) -> Result<Vec<&'static str>> {
    let from = workspace::root().join("logging");
    let (library, share) = (prefix.join("lib/libweir-logging.so"), prefix.join("share/weir"));
    fs::create_dir_all(&share).with_context(|| format!("cannot make {}", share.display()))?;
    let Some(cc) = ["cc", "gcc", "clang"].into_iter().find_map(process::find_program) else {
        eprintln!("no C compiler: libweir-logging.so is left out");
        return Ok(Vec::new());
    };
    let java = java_headers();
    // It replaces an older one at once, so that programs that have loaded that one keep it.
    let part = library.with_extension("so.part");
    let mut cc = Command::new(cc);
    cc.args(["-O2", "-fPIC", "-shared", "-s", "-o"])
        .arg(&part)
        .arg("-I")
        .arg(workspace::root().join("include"));
    java.iter().flatten().for_each(|folder| _ = cc.arg("-I").arg(folder));
    process::run(cc.arg(from.join("weir_logging.c")))?;
    fs::rename(&part, &library).with_context(|| format!("cannot rename {}", part.display()))?;
    let python = share.join("weir_logging.py");
    fs::copy(from.join("weir_logging.py"), &python)
        .with_context(|| format!("cannot write {}", python.display()))?;
    let mut installed = vec!["libweir-logging.so", "weir_logging.py"];
    match java {
        Some(_) => {
            jar(&from.join("java"), &share.join("weir-logging.jar"))?;
            installed.push("weir-logging.jar");
        }
        None => eprintln!("no javac with jni.h: weir-logging.jar is left out"),
    }
    Ok(installed)
}

/// Where <jni.h> and what it includes are.
fn java_headers() -> Option<[PathBuf; 2]> {
    let javac = process::find_program("javac").and_then(|path| fs::canonicalize(path).ok())?;
    let include = javac.parent()?.parent()?.join("include");
    include.join("jni.h").exists().then(|| [include.clone(), include.join("linux")])
}

fn jar(from: &Path, to: &Path) -> Result<()> {
    let classes = workspace::target_folder("logging-classes")?;
    // Of another Log4j, or of classes that are gone.
    fs::remove_dir_all(&classes).with_context(|| format!("cannot remove {}", classes.display()))?;
    let has_log4j = LOG4J.iter().all(|path| Path::new(path).exists());
    if !has_log4j {
        eprintln!("no {}: the appender of Log4j 2 is left out", LOG4J[0]);
    }
    let sources: Vec<PathBuf> = ["Events", "JulHandler", "Log4jAppender"]
        .into_iter()
        .filter(|class| has_log4j || *class != "Log4jAppender")
        .map(|class| from.join(format!("weir/logging/{class}.java")))
        .collect();
    if let Some(missing) = sources.iter().find(|path| !path.exists()) {
        bail!("no {}", missing.display());
    }
    let mut javac = Command::new("javac");
    javac.args(["--release", "11", "-cp", &LOG4J.join(":")]);
    // It lists the appender in the jar, where Log4j looks.
    match has_log4j {
        true => javac.args(["-processor", LOG4J_PROCESSOR]),
        false => javac.arg("-proc:none"),
    };
    javac.arg("-d").arg(&classes);
    process::run(javac.args(&sources))?;
    let mut jar = Command::new("jar");
    jar.arg("cfm").arg(to).arg(from.join("MANIFEST.MF")).arg("-C").arg(&classes).arg(".");
    process::run(&mut jar)
}
