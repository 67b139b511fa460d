//! demo: builds weir, traces a real program, prints what it found.
//!
//! sqlite3 where it is installed, otherwise a small C program of the tests. Works without root: a command that weir
//! starts itself may be traced by anyone.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use testkit::paths::quoted;

use crate::{process, workspace};

/// LIMIT: how long the traced program may take.
const DEMO_LIMIT: Duration = Duration::from_secs(120);

const QUERY: &str = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<200000) \
                     SELECT count(*), sum(length(hex(x))) FROM c;";

pub(crate) fn demo() -> Result<()> {
    let weir = workspace::dev_weir()?;
    let (script, command, what) = if process::find_program("sqlite3").is_some() {
        let script = "uprobe:libc:malloc { @bytes = hist(arg0); @calls = count(); }".to_string();
        (script, format!("sqlite3 :memory: \"{QUERY}\""), "every malloc of an SQL query")
    } else {
        let program = workspace::test_program("overhead")?;
        let script =
            format!("uprobe:{}:foo {{ @calls = count(); @argument = hist(arg0); }}", quoted(&program));
        (script, format!("{} 1000000 1", quoted(&program)), "a function called a million times a second")
    };
    let out = workspace::target_folder("demo")?.join("out.txt");
    println!("\nTracing {what}:\n");
    println!("  {} -o {} -e '{script}' -c '{command}'\n", weir.display(), out.display());
    let mut trace = Command::new(&weir);
    trace.args(["trace", "-o"]).arg(&out).args(["-e", &script, "-c", &command]);
    let output = process::output_within(&mut trace, DEMO_LIMIT)?;
    print!("The program printed:\n\n{}\n", String::from_utf8_lossy(&output.stdout));
    let found = fs::read_to_string(&out).with_context(|| format!("cannot read {}", out.display()))?;
    println!("weir found:\n\n{}", found.trim());
    Ok(())
}
