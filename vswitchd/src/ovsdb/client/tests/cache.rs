use super::*;
use crate::ovsdb::client::update::UpdateError;

/// Everything in a copy, one line a column.
fn dump(cache: &Cache) -> Vec<String> {
    let mut lines = Vec::new();
    for table in ["Bridge", "Open_vSwitch", "Port"] {
        for row in cache.rows(table) {
            for column in ["name", "tag", "trunks", "next_cfg", "cur_cfg", "other_config"] {
                if let Some(datum) = row.datum(column) {
                    let number = row.uuid().as_u128();
                    lines.push(format!("{table} {number} {column} {}", datum.to_json()));
                }
            }
        }
    }
    lines
}

#[test]
fn rows_read_as_their_types() {
    let cache = cache();
    let root = cache.singleton("Open_vSwitch").unwrap();
    assert_eq!((root.uuid(), root.table()), (uuid(1), "Open_vSwitch"));
    assert_eq!((root.integer("next_cfg"), root.integer("cur_cfg")), (7, 0));
    let config = root.map("other_config");
    assert_eq!(config.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "2")]);
    assert_eq!((config.get("b"), config.get("c"), config.is_empty()), (Some("2"), None, false));

    let bridge = cache.references(root, "bridges").next().unwrap();
    assert_eq!(bridge.string("name"), "br0");
    assert_eq!((bridge.boolean("stp_enable"), bridge.optional_boolean("tag")), (true, None));
    assert_eq!(bridge.optional_integer("tag"), Some(9));
    let names =
        |column| cache.references(bridge, column).map(|row| row.string("name")).collect::<Vec<_>>();
    // What a reference dangles from is left out.
    assert_eq!(names("ports"), ["p0", "p1"]);
    assert_eq!(names("queues"), ["p1"]);
    assert_eq!(names("name"), [""; 0]);
    assert_eq!(bridge.uuids("ports").count(), 3);
    assert_eq!(bridge.optional_uuid("queues"), Some(uuid(4)));

    let [p0, p1] = [3, 4].map(|number| cache.row("Port", uuid(number)).unwrap());
    assert_eq!(p0.integers("trunks").collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(p1.optional_integer("trunks"), None);
    assert!(cache.row("Port", uuid(5)).is_none());
    assert_eq!(p1.strings("name").collect::<Vec<_>>(), ["p1"]);
}

#[test]
fn what_the_database_lacks_reads_as_nothing() {
    let mut cache = Cache::new("Open_vSwitch");
    let monitored = [
        MonitoredTable::new("Port").read(&["name", "bond_mode"]),
        MonitoredTable::new("AutoAttach").read(&["name"]),
    ];
    cache.set_schema(&schema(), &monitored);
    assert_eq!(cache.monitor_requests(), json!({"Port": [{"columns": ["name"]}]}));
    let port = json!({"insert": {"name": "p"}});
    assert_eq!(cache.apply(&update("Port", 3, &port), Method::Cond), Ok(true));
    assert_eq!(cache.rows("AutoAttach").count(), 0);
    let port = cache.row("Port", uuid(3)).unwrap();
    assert_eq!(port.datum("bond_mode"), None);
    assert_eq!((port.string("bond_mode"), port.integer("bond_mode")), ("", 0));
    assert_eq!((port.boolean("bond_mode"), port.optional_uuid("bond_mode")), (false, None));
    assert!(port.map("bond_mode").is_empty());
    assert_eq!(cache.references(port, "bond_mode").count(), 0);
}

#[test]
fn differences_are_applied() {
    let mut cache = cache();
    let modify = json!({"modify": {
        "name": "p9", "trunks": ["set", [3, 4]], "statistics": ["map", [["rx", 1]]],
    }});
    assert_eq!(cache.apply(&update("Port", 3, &modify), Method::CondSince), Ok(true));
    let modify = json!({"modify": {"other_config": ["map", [["a", "1"], ["b", "3"], ["c", "4"]]]}});
    assert_eq!(cache.apply(&update("Open_vSwitch", 1, &modify), Method::Cond), Ok(true));
    let modify = json!({"modify": {"tag": ["set", []]}});
    assert_eq!(cache.apply(&update("Bridge", 2, &modify), Method::Cond), Ok(true));
    let delete = json!({"delete": null});
    assert_eq!(cache.apply(&update("Port", 4, &delete), Method::Cond), Ok(true));
    assert_eq!(
        dump(&cache),
        [
            r#"Bridge 2 name "br0""#,
            r#"Bridge 2 tag ["set",[]]"#,
            r#"Open_vSwitch 1 next_cfg 7"#,
            r#"Open_vSwitch 1 cur_cfg 0"#,
            r#"Open_vSwitch 1 other_config ["map",[["b","3"],["c","4"]]]"#,
            r#"Port 3 name "p9""#,
            r#"Port 3 trunks ["set",[1,2,4]]"#,
        ]
    );
}

#[test]
fn whole_rows_are_applied() {
    let mut cache = cache();
    let port = |name: &str| json!({"name": name, "trunks": 5});
    let insert = json!({"new": port("p5")});
    assert_eq!(cache.apply(&update("Port", 5, &insert), Method::Plain), Ok(true));
    let replace = json!({"old": {"name": "p0"}, "new": port("p9")});
    assert_eq!(cache.apply(&update("Port", 3, &replace), Method::Plain), Ok(true));
    let delete = json!({"old": port("p1")});
    assert_eq!(cache.apply(&update("Port", 4, &delete), Method::Plain), Ok(true));
    assert_eq!(
        dump(&cache)[5..],
        [r#"Port 3 name "p9""#, r#"Port 3 trunks 5"#, r#"Port 5 name "p5""#, r#"Port 5 trunks 5"#,]
    );
}

#[test]
fn changes_of_columns_that_are_only_written_are_not_told() {
    let mut cache = cache();
    let modify = json!({"modify": {"cur_cfg": 7}});
    assert_eq!(cache.apply(&update("Open_vSwitch", 1, &modify), Method::Cond), Ok(false));
    assert_eq!(cache.singleton("Open_vSwitch").unwrap().integer("cur_cfg"), 7);
    assert_eq!(cache.apply(&json!({}), Method::Cond), Ok(false));
    // A server that sends its content anew may have lost what was written: `cur_cfg` is 0.
    assert_eq!(cache.replace(&contents(), Method::Cond), Ok(true));
    assert_eq!(cache.singleton("Open_vSwitch").unwrap().integer("cur_cfg"), 0);
    assert_eq!(cache.replace(&contents(), Method::Cond), Ok(false));
    let mut other = contents();
    other["Port"] = json!({});
    assert_eq!(cache.replace(&other, Method::Cond), Ok(true));
    assert_eq!(cache.rows("Port").count(), 0);
    assert_eq!(cache.replace(&contents(), Method::Cond), Ok(true));
}

#[test]
fn another_schema_empties_the_copy() {
    let mut cache = cache();
    assert!(cache.set_schema(&schema(), &monitored()));
    assert_eq!(cache.rows("Port").count(), 2);
    let mut changed = schema_json();
    changed["tables"]["Port"]["columns"]["trunks"] = json!({"type": "integer"});
    assert!(!cache.set_schema(&DatabaseSchema::from_json(&changed).unwrap(), &monitored()));
    assert_eq!(cache.rows("Port").count(), 0);
}

#[test]
fn updates_that_do_not_fit_are_refused() {
    let inconsistent = |action, number| UpdateError::Inconsistent {
        action,
        uuid: uuid(number),
        table: "Port".to_owned(),
    };
    let cases = [
        (update("Port", 9, &json!({"delete": null})), inconsistent("delete missing", 9)),
        (update("Port", 3, &json!({"insert": {}})), inconsistent("add existing", 3)),
        (update("Port", 9, &json!({"modify": {}})), inconsistent("modify missing", 9)),
    ];
    for (update, error) in cases {
        assert_eq!(cache().apply(&update, Method::Cond), Err(error), "{update}");
    }
    for (malformed, method) in [
        (json!([]), Method::Cond),
        (json!({"Port": 1}), Method::Cond),
        (json!({"Port": {"x": {"delete": null}}}), Method::Cond),
        (update("Port", 3, &json!(1)), Method::Cond),
        (update("Port", 3, &json!({"modify": {}, "delete": null})), Method::Cond),
        (update("Port", 3, &json!({"modify": 1})), Method::Cond),
        (update("Port", 3, &json!({"erase": {}})), Method::Cond),
        (update("Port", 3, &json!({})), Method::Plain),
        (update("Port", 3, &json!({"new": 1})), Method::Plain),
        (update("Port", 3, &json!({"modify": {}})), Method::Plain),
    ] {
        let error = cache().apply(&malformed, method).unwrap_err();
        assert!(error.to_string().starts_with("syntax \""), "{malformed}: {error}");
    }
    // A value of another type leaves what was there, and does not cost the rest.
    let mut cache = cache();
    let modify = json!({"modify": {"name": 1, "trunks": 4}});
    assert_eq!(cache.apply(&update("Port", 3, &modify), Method::Cond), Ok(true));
    let port = cache.row("Port", uuid(3)).unwrap();
    assert_eq!((port.string("name"), port.integers("trunks").count()), ("p0", 4));
}
