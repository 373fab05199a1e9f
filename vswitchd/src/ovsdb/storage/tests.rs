use std::os::unix::fs::{FileExt, PermissionsExt, symlink};

use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::ovsdb::operation::Outcome;
use crate::ovsdb::test_support::{run, schema};

const TIME: Duration = Duration::from_secs(1_000_000);

struct Fixture {
    directory: TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("conf.db")
    }

    fn open(&self) -> (Storage, Database) {
        Storage::open(&self.path(), schema(), false, Duration::ZERO, TIME).unwrap()
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.path()).unwrap()
    }

    /// The JSON of all records.
    fn records(&self) -> Vec<Value> {
        let mut reader = LogReader::new(fs::File::open(self.path()).unwrap()).unwrap();
        std::iter::from_fn(|| reader.read().unwrap()).collect()
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// Makes a transaction, and gives the error that the file caused.
fn commit(storage: &mut Storage, database: &mut Database, operations: &Value) -> Option<Error> {
    let Outcome::Succeeded(results, transaction) = run(database, operations) else {
        panic!("{operations} fails");
    };
    let changes = transaction.prepare().unwrap_or_else(|error| panic!("{results:?} {error}"));
    if let Err(error) = storage.append(database, &changes, TIME) {
        return Some(error);
    }
    database.apply(&changes);
    None
}

fn insert(name: &str, number: i64) -> Value {
    json!({"op": "insert", "table": "Root", "row": {"name": name, "number": number}})
}

/// Every persistent value, by table and UUID.
fn contents(database: &Database) -> Value {
    let mut json = record::database_to_json(database, "", TIME);
    json.as_object_mut().unwrap().remove("_comment");
    json
}

#[test]
fn a_new_file_has_the_schema() {
    let fixture = Fixture::new();
    let (_storage, database) = fixture.open();
    assert_eq!(*database.schema(), schema());
    assert_eq!(fixture.records(), [schema().to_json()]);
    assert_eq!(fixture.names(), [".conf.db.~lock~", "conf.db"]);
    let mode = fs::metadata(fixture.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0);
}

#[test]
fn a_record_is_what_changed() {
    let fixture = Fixture::new();
    let (mut storage, mut database) = fixture.open();
    let uuid = "550e8400-e29b-41d4-a716-446655440000";
    let row = json!({"name": "a", "number": 5, "volatile": 3, "integers": ["set", [1, 2]],
                     "words": ["map", [["x", 1], ["y", 2]]]});
    for operation in [
        json!({"op": "insert", "table": "Root", "uuid": uuid, "row": row}),
        json!({"op": "update", "table": "Root", "where": [], "row": {
            "number": 6, "integers": ["set", [2, 3]], "words": ["map", [["x", 9]]]}}),
        // Nothing of this outlives the server.
        json!({"op": "update", "table": "Root", "where": [], "row": {"volatile": 4}}),
        json!({"op": "delete", "table": "Root", "where": []}),
    ] {
        let comment = json!({"op": "comment", "comment": "for a test"});
        assert_eq!(commit(&mut storage, &mut database, &json!([operation, comment])), None);
    }
    let record = |columns: Value| {
        json!({"Root": {uuid: columns}, "_comment": "for a test", "_date": 1_000_000_000,
               "_is_diff": true})
    };
    assert_eq!(
        fixture.records()[1..],
        [
            record(json!({"name": "a", "number": 5, "integers": ["set", [1, 2]],
                          "words": ["map", [["x", 1], ["y", 2]]]})),
            record(json!({"number": 6, "integers": ["set", [1, 3]],
                          "words": ["map", [["x", 9], ["y", 2]]]})),
            record(Value::Null),
        ]
    );
}

#[test]
fn content_survives_reopening() {
    let fixture = Fixture::new();
    let (mut storage, mut database) = fixture.open();
    let operations = [
        json!([insert("a", 1), {"op": "insert", "table": "Part", "uuid-name": "p", "row": {}},
               {"op": "insert", "table": "Root", "row": {
                   "name": "b", "parts": ["named-uuid", "p"], "likes": ["named-uuid", "p"]}}]),
        json!([{"op": "mutate", "table": "Root", "where": [["name", "==", "a"]],
                "mutations": [["number", "+=", 1], ["real", "insert", 0.1],
                              ["words", "insert", ["map", [["k", 1]]]]]}]),
        json!([{"op": "update", "table": "Root", "where": [["name", "==", "b"]],
                "row": {"parts": ["set", []], "colour": "red"}}]),
    ];
    for operations in &operations {
        assert_eq!(commit(&mut storage, &mut database, operations), None);
    }
    drop(storage);
    let (mut storage, mut again) = fixture.open();
    assert_eq!(contents(&again), contents(&database));
    assert_eq!(commit(&mut storage, &mut again, &json!([insert("c", 3)])), None);
    drop(storage);
    assert_eq!(contents(&fixture.open().1), contents(&again));
}

#[test]
fn whole_values_are_understood_as_well_as_differences() {
    let fixture = Fixture::new();
    let uuid = "550e8400-e29b-41d4-a716-446655440000";
    let mut bytes = encode(&schema().to_json());
    for record in [
        json!({"Root": {uuid: {"name": "a", "integers": ["set", [1, 2]]}}, "_date": 1}),
        json!({"Root": {uuid: {"integers": ["set", [2, 3]]}}, "_comment": "whole"}),
        json!({"Root": {uuid: {"integers": ["set", [3, 4]]}}, "_is_diff": true}),
    ] {
        bytes.extend(encode(&record));
    }
    fs::write(fixture.path(), bytes).unwrap();
    let (_storage, database) = fixture.open();
    assert_eq!(
        contents(&database)["Root"],
        json!({uuid: {"name": "a", "integers": ["set", [2, 4]]}})
    );
}

/// A file with three transactions, where each record ends, and the content after each.
fn three_records(fixture: &Fixture) -> (Vec<u8>, Vec<usize>, Vec<Value>) {
    let (mut storage, mut database) = fixture.open();
    let (mut ends, mut states) = (vec![fixture.bytes().len()], vec![contents(&database)]);
    for number in 1..=3 {
        let operations = json!([insert(&format!("row {number}"), number)]);
        assert_eq!(commit(&mut storage, &mut database, &operations), None);
        ends.push(fixture.bytes().len());
        states.push(contents(&database));
    }
    (fixture.bytes(), ends, states)
}

#[test]
fn a_torn_record_loses_nothing_before_it() {
    let fixture = Fixture::new();
    let (bytes, ends, states) = three_records(&fixture);
    for length in ends[2]..ends[3] {
        fs::write(fixture.path(), &bytes[..length]).unwrap();
        let (mut storage, mut database) = fixture.open();
        assert_eq!(contents(&database), states[2], "at {length}");
        assert_eq!(fixture.bytes(), bytes[..ends[2]]);
        assert_eq!(commit(&mut storage, &mut database, &json!([insert("new", 9)])), None);
        drop(storage);
        assert_eq!(contents(&fixture.open().1), contents(&database));
    }
}

#[test]
fn a_corrupt_byte_loses_nothing_before_its_record() {
    let fixture = Fixture::new();
    let (bytes, ends, states) = three_records(&fixture);
    for place in ends[2]..ends[3] {
        let mut corrupt = bytes.clone();
        corrupt[place] ^= 1;
        fs::write(fixture.path(), &corrupt).unwrap();
        assert_eq!(contents(&fixture.open().1), states[2], "at {place}");
    }
}

#[test]
fn damage_is_told_with_place_and_reason() {
    let fixture = Fixture::new();
    let (bytes, ends, _) = three_records(&fixture);
    let damage = |bytes: &[u8]| {
        fs::write(fixture.path(), bytes).unwrap();
        let mut reader = LogReader::new(fs::File::open(fixture.path()).unwrap()).unwrap();
        loop {
            match reader.read() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("no damage"),
                Err(Damage { offset, reason }) => return (offset as usize, reason),
            }
        }
    };
    assert_eq!(damage(&bytes[..ends[2] + 8]), (ends[2], "\"OVSDB JS\" is no header line".into()));
    let header = bytes[ends[2]..].iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let length = ends[3] - ends[2] - header;
    assert_eq!(
        damage(&bytes[..ends[3] - 4]),
        (ends[2], format!("{length} bytes of data announced, {} are there", length - 4))
    );
    let huge = format!("OVSDB JSON 99999999999999 {}\n", "0".repeat(40));
    assert_eq!(
        damage(huge.as_bytes()),
        (0, "99999999999999 bytes of data announced, 0 are there".into())
    );
    let list = encode(&json!([1]));
    assert_eq!(damage(&list), (0, "data is not a JSON object".into()));
}

#[test]
fn a_record_that_does_not_fit_ends_the_log() {
    let fixture = Fixture::new();
    let (bytes, _, states) = three_records(&fixture);
    let missing = "550e8400-e29b-41d4-a716-446655440000";
    for record in [
        json!({"Shapes": {}}),
        json!({"Root": {missing: null}}),
        json!({"Root": {missing: {"number": 101}}}),
        json!({"Root": {"x": {}}}),
        json!({"Root": {missing: {"name": "row 1"}}}),
    ] {
        fs::write(fixture.path(), [bytes.clone(), encode(&record)].concat()).unwrap();
        assert_eq!(contents(&fixture.open().1), states[3], "{record}");
        assert_eq!(fixture.bytes(), bytes);
    }
}

#[test]
fn other_files_are_left_alone() {
    let fixture = Fixture::new();
    let refused = |content: &[u8]| {
        fs::write(fixture.path(), content).unwrap();
        let result = Storage::open(&fixture.path(), schema(), false, Duration::ZERO, TIME);
        assert_eq!(fixture.bytes(), content);
        let path = fixture.path().display().to_string();
        result.unwrap_err().to_string().replace(&path, "PATH")
    };
    assert_eq!(
        refused(b"[Unit]\n"),
        "PATH: no standalone OVSDB database: record at offset 0: \"[Unit]\" is no header line"
    );
    assert_eq!(
        refused(b"OVSDB CLUSTER 5 0123456789012345678901234567890123456789\n{}\n"),
        "PATH: no standalone OVSDB database: record at offset 0: \"OVSDB CLUSTER 5 \
         0123456789012345678901234567890123456789\" is no header line"
    );
    assert_eq!(
        refused(&encode(&json!({"name": "Other", "tables": {}}))),
        "PATH: contains database Other, expected Test"
    );
    assert_eq!(
        refused(&encode(&json!({"name": "Test"}))),
        "PATH: syntax \"{\"name\":\"Test\"}\": syntax error: Parsing database schema failed: \
         Required 'tables' member is missing."
    );
}

#[test]
fn a_failed_write_changes_nothing() {
    let fixture = Fixture::new();
    let (mut storage, mut database) = fixture.open();
    assert_eq!(commit(&mut storage, &mut database, &json!([insert("a", 1)])), None);
    let (bytes, state) = (fixture.bytes(), contents(&database));

    // Neither writing nor cutting works through this.
    let read_only = fs::File::open(fixture.path()).unwrap();
    let length = storage.log.length();
    let good = std::mem::replace(
        &mut storage.log,
        LogFile::new(read_only, &fixture.path(), length, false),
    );
    storage.log.assume_whole();
    let error = commit(&mut storage, &mut database, &json!([insert("b", 2)])).unwrap();
    let path = fixture.path().display().to_string();
    assert_eq!(
        error.to_string().replace(&path, "PATH"),
        "I/O error: PATH: write failed: Bad file descriptor"
    );
    let error = commit(&mut storage, &mut database, &json!([insert("b", 2)])).unwrap();
    assert_eq!(
        error.to_string().replace(&path, "PATH"),
        "I/O error: PATH: cutting off a torn record failed: Invalid argument"
    );
    assert_eq!((fixture.bytes(), contents(&database)), (bytes, state));

    storage.log = good;
    assert_eq!(commit(&mut storage, &mut database, &json!([insert("b", 2)])), None);
    drop(storage);
    assert_eq!(contents(&fixture.open().1), contents(&database));
}

#[test]
fn compaction_keeps_what_is_committed_meanwhile() {
    let fixture = Fixture::new();
    let (mut storage, mut database) = fixture.open();
    for number in 0..50 {
        let operations = json!([
            {"op": "delete", "table": "Root", "where": []}, insert("only", number)]);
        assert_eq!(commit(&mut storage, &mut database, &operations), None);
    }
    let before = fixture.bytes().len();
    let (sender, receiver) = std::sync::mpsc::channel();
    storage
        .start_compaction(database.clone(), TIME, TIME, move || sender.send(()).unwrap())
        .unwrap();
    assert_eq!(commit(&mut storage, &mut database, &json!([insert("meanwhile", 1)])), None);
    receiver.recv().unwrap();
    storage.finish_compaction().unwrap();
    assert!(fixture.bytes().len() < before / 4);
    let records = fixture.records();
    assert_eq!(records.len(), 3);
    assert_eq!(records[1]["_comment"], "compacting database online");
    assert_eq!(commit(&mut storage, &mut database, &json!([insert("after", 1)])), None);
    assert_eq!(fixture.names(), [".conf.db.~lock~", "conf.db"]);
    drop(storage);
    assert_eq!(contents(&fixture.open().1), contents(&database));
}

#[test]
fn a_failed_compaction_keeps_the_old_file() {
    let fixture = Fixture::new();
    let (mut storage, mut database) = fixture.open();
    let obstacle = fixture.directory.path().join("conf.db.tmp");
    fs::create_dir(&obstacle).unwrap();
    storage.start_compaction(database.clone(), TIME, TIME, || ()).unwrap();
    assert_eq!(
        storage.finish_compaction().unwrap_err().to_string(),
        format!("{}: removing an old temporary file failed: Is a directory", obstacle.display())
    );
    assert_eq!(commit(&mut storage, &mut database, &json!([insert("a", 1)])), None);
    drop(storage);
    assert_eq!(contents(&fixture.open().1), contents(&database));
}

#[test]
fn a_linked_file_is_compacted_where_it_is() {
    let fixture = Fixture::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let target = elsewhere.path().join("real.db");
    fs::write(&target, "").unwrap();
    symlink(&target, fixture.path()).unwrap();
    let (mut storage, database) = fixture.open();
    storage.start_compaction(database, TIME, TIME, || ()).unwrap();
    storage.finish_compaction().unwrap();
    assert!(fs::symlink_metadata(fixture.path()).unwrap().is_symlink());
    assert_eq!(fixture.names(), ["conf.db"]);
    assert_eq!(fixture.records().len(), 2);
}

#[test]
fn it_is_time_to_compact_when_the_log_grew_or_is_old() {
    let fixture = Fixture::new();
    let (mut storage, mut database) = fixture.open();
    let (minutes, day) = (Duration::from_secs(601), Duration::from_secs(86_400));
    assert!(!storage.should_compact(day));
    assert_eq!(commit(&mut storage, &mut database, &json!([insert("a", 1)])), None);
    assert!(!storage.should_compact(minutes));
    assert!(storage.should_compact(day));
    storage.records = 100;
    storage.log.append(&vec![b' '; 11 * 1024 * 1024]).unwrap();
    assert!(!storage.should_compact(Duration::from_secs(599)));
    assert!(storage.should_compact(minutes));
    storage.base = storage.log.length() / 2;
    assert!(!storage.should_compact(minutes));
}

#[test]
fn an_older_schema_is_converted() {
    let fixture = Fixture::new();
    let uuid = "550e8400-e29b-41d4-a716-446655440000";
    let old = json!({"name": "Test", "version": "0.9.0", "cksum": "12 34", "tables": {
        "Root": {"isRoot": true, "columns": {
            "name": {"type": "string"},
            "number": {"type": {"key": "integer", "min": 0}},
            "obsolete": {"type": "integer"}}},
        "Gone": {"isRoot": true, "columns": {"x": {"type": "integer"}}}}});
    let content = [
        encode(&old),
        encode(&json!({"Root": {uuid: {"name": "a", "number": 7, "obsolete": 1}},
                       "Gone": {uuid: {"x": 1}}})),
    ]
    .concat();
    fs::write(fixture.path(), &content).unwrap();
    let (_storage, database) = fixture.open();
    assert_eq!(contents(&database)["Root"], json!({uuid: {"name": "a", "number": 7}}));
    let records = fixture.records();
    assert_eq!(records[0], schema().to_json());
    assert_eq!(records.len(), 2);
    assert_eq!(fs::read(fixture.directory.path().join("conf.db.backup0.9.0-12")).unwrap(), content);

    let too_great = [encode(&old), encode(&json!({"Root": {uuid: {"number": 101}}}))].concat();
    fs::write(fixture.path(), &too_great).unwrap();
    let error = Storage::open(&fixture.path(), schema(), false, Duration::ZERO, TIME).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{}: cannot convert to schema version 1.0.0: constraint violation: 101 is not in the \
             valid range 0 to 100 (inclusive)",
            fixture.path().display()
        )
    );
    assert_eq!(fixture.bytes(), too_great);
}

#[test]
fn a_locked_file_is_not_opened() {
    let fixture = Fixture::new();
    let lock = fixture.directory.path().join(".conf.db.~lock~");
    // Record locks hold between processes only, so another one has to take it.
    let script = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); \
                  print('locked', flush=True); sys.stdin.read()";
    let mut holder = std::process::Command::new("python3")
        .args(["-c", script, lock.to_str().unwrap()])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let output = holder.stdout.take().unwrap();
    io::BufRead::read_line(&mut io::BufReader::new(output), &mut line).unwrap();
    let result = Storage::open(&fixture.path(), schema(), false, Duration::ZERO, TIME);
    let pid = holder.id();
    drop(holder.stdin.take());
    holder.wait().unwrap();
    assert_eq!(
        result.unwrap_err().to_string(),
        format!("{}: cannot lock file because it is already locked by pid {pid}", lock.display())
    );
    fixture.open();
}

proptest! {
    #[test]
    fn any_bytes_can_be_opened_or_refused(
        tail in proptest::collection::vec(any::<u8>(), 0..200),
        place in 0_usize..1000,
        byte in any::<u8>(),
    ) {
        let fixture = Fixture::new();
        let (bytes, ends, states) = three_records(&fixture);
        let place = place % bytes.len();
        let file = OpenOptions::new().write(true).open(fixture.path()).unwrap();
        file.write_all_at(&tail, bytes.len() as u64).unwrap();
        file.write_all_at(&[byte], place as u64).unwrap();
        drop(file);
        let changed = bytes[place] != byte;
        let result = Storage::open(&fixture.path(), schema(), false, Duration::ZERO, TIME);
        match ends.iter().position(|end| place < *end).filter(|_| changed) {
            Some(0) => prop_assert!(result.is_err()),
            Some(record) => prop_assert_eq!(contents(&result.unwrap().1), states[record - 1].clone()),
            None => prop_assert_eq!(contents(&result.unwrap().1), states[3].clone()),
        }
    }
}
