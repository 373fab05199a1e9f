//! Names of ports, for text.

use std::collections::HashMap;

/// The names of the ports of a datapath.
#[derive(Debug, Clone, Default)]
pub struct PortNames {
    names: HashMap<u32, String>,
    numbers: HashMap<String, u32>,
}

impl PortNames {
    /// The name of a port.
    pub fn name(&self, number: u32) -> Option<&str> {
        self.names.get(&number).map(String::as_str)
    }

    /// The number of a port.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }
}

impl FromIterator<(u32, String)> for PortNames {
    fn from_iter<T: IntoIterator<Item = (u32, String)>>(ports: T) -> Self {
        let mut all = Self::default();
        for (number, name) in ports {
            all.names.insert(number, name.clone());
            all.numbers.insert(name, number);
        }
        all
    }
}
