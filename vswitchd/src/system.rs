//! What system the switch runs on, for the columns `system_type` and `system_version`.

use std::fs;

/// Name and version of the operating system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    /// `ID` of os-release(5), such as `debian`.
    pub name: String,
    /// `VERSION_ID`, such as `12`.
    pub version: String,
}

impl System {
    /// The system that this process runs on; `unknown` where it does not tell.
    pub fn current() -> Self {
        let text = fs::read_to_string("/etc/os-release")
            .or_else(|_| fs::read_to_string("/usr/lib/os-release"));
        Self::parse(&text.unwrap_or_default())
    }

    fn parse(os_release: &str) -> Self {
        let value = |key: &str| {
            let lines = os_release.lines().filter_map(|line| line.split_once('='));
            let value = lines.filter(|(name, _)| *name == key).map(|(_, value)| value).next_back();
            let value = value.unwrap_or_default().trim_matches(['"', '\'']);
            if value.is_empty() { "unknown".to_owned() } else { value.to_owned() }
        };
        Self { name: value("ID"), version: value("VERSION_ID") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_os_release() {
        let text = "NAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\nID=debian\nID_LIKE=x\n";
        assert_eq!(
            System::parse(text),
            System { name: "debian".to_owned(), version: "12".to_owned() }
        );
        let unknown = System { name: "unknown".to_owned(), version: "unknown".to_owned() };
        assert_eq!(System::parse("ID=\n# VERSION_ID=1\n"), unknown);
    }
}
