//! Checks traces by the text of CTF 1.8: `cargo run -p testkit --example ctf FOLDER…`. Exit code 1 if one is wrong, which is said.

use std::path::Path;
use std::process::ExitCode;

use testkit::ctf;

fn main() -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for folder in std::env::args().skip(1) {
        match ctf::check_folder(Path::new(&folder)) {
            Ok(counts) => println!("{folder}: {counts:?}"),
            Err(fault) => {
                println!("{folder}: {fault}");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}
