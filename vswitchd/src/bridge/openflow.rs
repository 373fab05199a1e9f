//! OpenFlow connections to the bridges.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ofproto::connection::{Bridge, Connections, ControllerSettings, ControllerType, Event};
use ofproto::switch::Switch;
use stream::tls::{TlsConfig, TlsSettings};
use tracing::{error, warn};

use super::Bridges;
use crate::config::model::BridgeConfig;

/// Silence after which a peer on `BRIDGE.mgmt` is probed.
const MANAGEMENT_PROBE: Duration = Duration::from_secs(60);

impl Bridges {
    /// Completes when something happened on an OpenFlow connection.
    pub async fn openflow_event(&self) -> Event {
        self.environment.events.next().await
    }

    /// Takes in what happened on an OpenFlow connection.
    pub fn handle_openflow(&mut self, event: Event) {
        let name = Rc::clone(&event.switch);
        if let Some((connections, mut bridge)) = self.conversation(&name) {
            connections.take_event(event, &mut bridge);
        }
    }

    /// The connections of bridge `name`, and what they are about.
    pub(super) fn conversation(&mut self, name: &str) -> Option<(&mut Connections, Bridge<'_>)> {
        let kind = self.applied.get(name)?.datapath?;
        let connections = self.connections.get_mut(name)?;
        let switch = self.switches.get_mut(name)?;
        let shared = self.datapaths.get_mut(&kind)?;
        Some((connections, shared.bridge(switch)))
    }

    /// Tells peers what happened to the switches, and does what else is due on connections.
    pub(super) fn maintain_connections(&mut self) {
        self.news.take();
        self.send_packet_ins();
        let mut due = None;
        for (name, connections) in &mut self.connections {
            let kind = self.applied.get(name).and_then(|applied| applied.datapath);
            let shared = kind.and_then(|kind| self.datapaths.get_mut(&kind));
            if let Some((shared, switch)) = shared.zip(self.switches.get_mut(name)) {
                let mut bridge = shared.bridge(switch);
                due = [due, connections.maintain(&mut bridge)].into_iter().flatten().min();
            }
        }
        self.connections_due = due;
    }

    /// Sends the packets that upcalls have for controllers.
    fn send_packet_ins(&mut self) {
        for shared in self.datapaths.values() {
            for packet in shared.upcalls.packet_ins().take() {
                let of = |switch: &&Switch| switch.id() == packet.switch;
                let name = self.switches.values().find(of).map(Switch::name);
                if let Some(connections) = name.and_then(|name| self.connections.get_mut(name)) {
                    connections.send_packet_in(packet.controller_id, &packet.message);
                }
            }
        }
    }

    /// The connections of bridge `name`.
    pub fn connections(&self, name: &str) -> Option<&Connections> {
        self.connections.get(name)
    }

    /// Sets how TLS connections are made; without settings as the command line says.
    pub(super) fn set_tls(&mut self, settings: Option<&TlsSettings>) {
        let current = self.environment.tls.get();
        match settings {
            None => self.environment.tls.set(self.default_tls.clone()),
            Some(settings) if current.is_none_or(|tls| tls.settings() != settings) => {
                self.environment.tls.set(Some(Arc::new(TlsConfig::new(settings.clone()))));
            }
            Some(_) => {}
        }
    }

    /// Brings the connections of a bridge in line with its configuration.
    pub(super) fn configure_connections(&mut self, name: &str, config: &BridgeConfig) {
        let environment = &self.environment;
        self.connections
            .entry(name.to_owned())
            .or_insert_with(|| Connections::new(name, environment.clone()));
        let directory = self.run_directory.display().to_string();
        let management = ControllerSettings {
            controller_type: ControllerType::Service,
            max_backoff: Duration::ZERO,
            probe_interval: MANAGEMENT_PROBE,
            in_band: false,
            unasked_messages: true,
            allowed: config.versions,
            packet_queue: config.packet_queue,
            rate_limit: 0,
            burst_limit: 0,
        };
        let mut wanted = BTreeMap::from([(format!("punix:{directory}/{name}.mgmt"), management)]);
        for controller in &config.controllers {
            let target = &controller.target;
            if self.confined
                && let Err(error) = check_confined(target, name, &directory)
            {
                error!(target: "bridge", limited = true, "bridge {name}: {error}");
                continue;
            }
            if wanted.contains_key(target) {
                warn!(
                    target: "bridge", limited = true,
                    "bridge {name}: Duplicate controllers \"{target}\"."
                );
                continue;
            }
            wanted.insert(target.clone(), controller.settings.clone());
        }
        let Some((connections, mut bridge)) = self.conversation(name) else { return };
        connections.set_controllers(&wanted, &mut bridge);
        connections.set_fail_mode(config.fail_mode, &mut bridge);
        connections.set_bundle_timeout(config.bundle_timeout);
        connections.set_in_band_queue(config.in_band_queue);
        connections.listen_for_snoopers(&format!("punix:{directory}/{name}.snoop"));
    }
}

/// Checks that a controller's unix socket is where whoever may write to the database may have the
/// daemon connect to or make sockets: in its own directory.
fn check_confined(target: &str, bridge: &str, directory: &str) -> Result<(), String> {
    if let Some(path) = target.strip_prefix("unix:") {
        let allowed = format!("{directory}/");
        if path.contains('/') && !path.starts_with(&allowed) {
            return Err(format!(
                "Not connecting to socket controller \"{target}\" due to possibility for remote \
                 exploit.  Instead, specify socket in permitted directory \"unix:{allowed}\" or \
                 connect to \"unix:{directory}/{bridge}.mgmt\" (which is always available without \
                 special configuration)."
            ));
        }
    } else if let Some(path) = target.strip_prefix("punix:") {
        let allowed = format!("{directory}/{bridge}.");
        if path.strip_prefix(&allowed).is_none_or(|rest| rest.contains('/')) {
            return Err(format!(
                "Not adding Unix domain socket controller \"{target}\" due to possibility of \
                 overwriting local files. Instead, specify path in permitted format \
                 \"punix:{allowed}*\" or connect to \"unix:{directory}/{bridge}.mgmt\" (which is \
                 always available without special configuration)."
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_stay_in_their_directory() {
        let allowed =
            ["tcp:10.0.0.1", "unix:controller", "unix:/run/s/other", "punix:/run/s/br0.extra"];
        for target in allowed {
            assert_eq!(check_confined(target, "br0", "/run/s"), Ok(()));
        }
        let refused =
            ["unix:/tmp/x", "unix:../x", "punix:/tmp/x", "punix:x", "punix:/run/s/br0.a/b"];
        for target in refused {
            let error = check_confined(target, "br0", "/run/s").unwrap_err();
            assert!(error.contains(&format!("controller \"{target}\"")), "{error}");
        }
    }
}
