//! Every crate that is not for development alone can be packaged as Cargo would publish it: its dependencies have versions, and what it includes is in its
//! folder.

use std::process::Command;

use testkit::paths;

fn cargo(arguments: &[&str]) -> std::process::Output {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(arguments).args(["--offline"]).current_dir(paths::root());
    cargo.output().unwrap_or_else(|error| panic!("cargo {arguments:?}: {error}"))
}

#[test]
fn crates_are_packaged_and_say_what_they_are() {
    let metadata = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("a list");
    let is_published = |package: &&serde_json::Value| package["publish"].is_null();
    let published: Vec<&str> =
        packages.iter().filter(is_published).map(|package| package["name"].as_str().unwrap_or("?")).collect();
    assert!(published.len() >= 20 && !published.contains(&"testkit"), "{published:?}");
    for package in packages.iter().filter(is_published) {
        for field in ["description", "license", "readme"] {
            assert!(package[field].is_string(), "{} has no {field}", package["name"]);
        }
        for field in ["keywords", "categories"] {
            let count = package[field].as_array().map_or(0, Vec::len);
            assert!((1..=5).contains(&count), "{} has {count} {field}", package["name"]);
        }
    }
    let folder = paths::target().join("packages");
    let mut arguments = vec!["package", "--no-verify", "--allow-dirty", "--target-dir"];
    arguments.push(folder.to_str().expect("a path of UTF-8"));
    published.iter().for_each(|name| arguments.extend(["--package", name]));
    let packaged = cargo(&arguments);
    assert!(packaged.status.success(), "{}", String::from_utf8_lossy(&packaged.stderr));
}
