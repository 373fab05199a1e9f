use std::path::Path;

use crate::ovsdb::client::parse_remotes;

#[test]
fn commas_separate_remotes() {
    let parse = |text| {
        parse_remotes(text, Path::new("/run"))
            .map(|remotes| remotes.iter().map(ToString::to_string).collect::<Vec<_>>())
            .map_err(|error| error.to_string())
    };
    let cases: [(&str, &[&str]); 4] = [
        ("unix:db.sock", &["unix:db.sock"]),
        (" tcp:10.0.0.1:1, ssl:b,unix:c ", &["tcp:10.0.0.1:1", "ssl:b", "unix:c"]),
        ("unix:a,b,c,tcp:d", &["unix:a,b,c", "tcp:d"]),
        ("ptcp:0", &["ptcp:0"]),
    ];
    for (text, remotes) in cases {
        assert_eq!(parse(text).unwrap(), remotes, "{text}");
    }
    assert_eq!(
        parse(" ").unwrap_err(),
        "no database server given, expected for example unix:/run/sluice/db.sock"
    );
    assert!(parse("unix:a,cid:b").unwrap_err().starts_with("cid:b: unknown connection method"));
}
