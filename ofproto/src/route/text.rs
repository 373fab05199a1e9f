//! Routes and rules in the words of OVS.

use std::fmt;

use netdev::network::Network;
use netdev::route::table;

use super::{RouteRule, ShownRoute};

/// The name of a table that the kernel has by itself.
fn standard_name(number: u32) -> Option<&'static str> {
    match number {
        table::DEFAULT => Some("default"),
        table::MAIN => Some("main"),
        table::LOCAL => Some("local"),
        _ => None,
    }
}

/// Whether the kernel has the table by itself.
pub fn is_standard(number: u32) -> bool {
    standard_name(number).is_some()
}

/// Text of `ovs/route/show`, a line for each route.
#[derive(Clone, Copy, Debug)]
pub struct RoutesText<'a> {
    /// The routes.
    pub routes: &'a [ShownRoute],
    /// Whether lines tell the table, unless the kernel has it by itself.
    pub with_table: bool,
}

impl fmt::Display for RoutesText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ShownRoute { table, network, mark, is_user, hop } in self.routes {
            write!(f, "{}: {network}", if *is_user { "User" } else { "Cached" })?;
            if *mark != 0 {
                write!(f, " MARK {mark}")?;
            }
            write!(f, " dev {}", hop.device)?;
            if let Some(gateway) = hop.gateway {
                write!(f, " GW {gateway}")?;
            }
            write!(f, " SRC {}", hop.source)?;
            if *table == table::LOCAL && !is_user {
                f.write_str(" local")?;
            }
            if self.with_table && !is_standard(*table) {
                write!(f, " table {table}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Text of `ovs/route/rule/show`, a line for each rule.
#[derive(Clone, Copy, Debug)]
pub struct RulesText<'a>(pub &'a [&'a RouteRule]);

impl fmt::Display for RulesText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for RouteRule { priority, is_user, is_inverted, from, table } in self.0 {
            write!(f, "{}: {priority}: ", if *is_user { "User" } else { "Cached" })?;
            f.write_str(if *is_inverted { "not from " } else { "from " })?;
            match from {
                Network { prefix_length: 0, .. } => f.write_str("all ")?,
                from if *from == Network::of_host(from.address) => write!(f, "{} ", from.address)?,
                // The second blank is OVS's.
                from => write!(f, "{from}  ")?,
            }
            match standard_name(*table) {
                Some(name) => writeln!(f, "lookup {name}")?,
                None => writeln!(f, "lookup {table}")?,
            }
        }
        Ok(())
    }
}
