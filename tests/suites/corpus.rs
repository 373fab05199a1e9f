//! Gives every input of the committed fuzz corpus to its parser.

use std::collections::BTreeSet;
use std::path::Path;

use tests::fuzz::TARGETS;

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn every_input_is_taken() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    for target in TARGETS {
        let corpus = fuzz.join("corpus").join(target.name);
        let inputs = names(&corpus);
        assert!(!inputs.is_empty(), "{} is empty", corpus.display());
        for name in inputs {
            println!("{} {name}", target.name);
            (target.run)(&std::fs::read(corpus.join(name)).unwrap());
        }
    }
}

#[test]
fn every_target_can_be_fuzzed() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let expected = TARGETS.map(|target| target.name.to_owned());
    assert_eq!(names(&fuzz.join("corpus")), BTreeSet::from(expected.clone()));
    let programs = names(&fuzz.join("targets"));
    assert_eq!(programs, expected.iter().map(|name| format!("{name}.rs")).collect());
    let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    for name in expected {
        assert!(manifest.contains(&format!("[[bin]]\nname = \"{name}\"\n")), "{name}");
    }
}
