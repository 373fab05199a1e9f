//! Printing of actions.

use std::net::Ipv6Addr;

use super::super::action::{
    Action, Bundle, BundleAlgorithm, Controller, Ct, Encap, EncapProperty, Learn, LearnDestination,
    LearnSource, Multipath, Nat, NatAddresses, Number, PacketInReason, Sample, SampleDirection,
    SetField, SetForm, Subfield, packet_type,
};
use super::super::port::PortNo;
use super::super::value::Value;
use super::value::{
    alternate_hex, put_dotted_hex, put_hex, put_ipv6, put_mac, put_subfield, put_value,
};
use super::{DEFAULT_PRIORITY, Names, chomp, put, put_port, put_table};

/// Appends the actions with commas between, `drop` if there are none.
pub fn print_actions(out: &mut String, actions: &[Action], names: &dyn Names) {
    if actions.is_empty() {
        out.push_str("drop");
    }
    for (index, action) in actions.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        print_action(out, action, names);
    }
}

fn mac(address: [u8; 6]) -> u64 {
    address.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn print_action(out: &mut String, action: &Action, names: &dyn Names) {
    match action {
        Action::Output { port, max_len } => {
            if *port < PortNo::MAX {
                out.push_str("output:");
            }
            put_port(out, *port, names);
            if *port == PortNo::CONTROLLER {
                put(out, format_args!(":{max_len}"));
            }
        }
        Action::Group(group) => put(out, format_args!("group:{group}")),
        Action::Controller(controller) => print_controller(out, controller),
        Action::Enqueue { port, queue } => {
            out.push_str("enqueue:");
            put_port(out, *port, names);
            put(out, format_args!(":{queue}"));
        }
        Action::OutputField { src, .. } => with_subfield(out, "output:", src),
        Action::Bundle(bundle) => print_bundle(out, bundle, names),
        Action::SetField(set) => print_set_field(out, set, names),
        Action::SetVlanVid { vid, push_if_needed, .. } => {
            let verb = if *push_if_needed { "mod" } else { "set" };
            put(out, format_args!("{verb}_vlan_vid:{vid}"));
        }
        Action::SetVlanPcp { pcp, push_if_needed, .. } => {
            let verb = if *push_if_needed { "mod" } else { "set" };
            put(out, format_args!("{verb}_vlan_pcp:{pcp}"));
        }
        Action::PopVlan { strip } => {
            out.push_str(if *strip { "strip_vlan" } else { "pop_vlan" });
        }
        Action::PushVlan(kind) => {
            put(out, format_args!("push_vlan:{}", alternate_hex(u64::from(*kind))));
        }
        Action::SetEthSrc(address) => {
            out.push_str("mod_dl_src:");
            put_mac(out, mac(*address));
        }
        Action::SetEthDst(address) => {
            out.push_str("mod_dl_dst:");
            put_mac(out, mac(*address));
        }
        Action::SetIpv4Src(address) => put(out, format_args!("mod_nw_src:{address}")),
        Action::SetIpv4Dst(address) => put(out, format_args!("mod_nw_dst:{address}")),
        Action::SetIpDscp(dscp) => put(out, format_args!("mod_nw_tos:{dscp}")),
        Action::SetIpEcn(ecn) => put(out, format_args!("mod_nw_ecn:{ecn}")),
        Action::SetIpTtl(ttl) => put(out, format_args!("mod_nw_ttl:{ttl}")),
        Action::SetTransportSrc { port, .. } => put(out, format_args!("mod_tp_src:{port}")),
        Action::SetTransportDst { port, .. } => put(out, format_args!("mod_tp_dst:{port}")),
        Action::Move(copy) => {
            with_subfield(out, "move:", &copy.src);
            with_subfield(out, "->", &copy.dst);
        }
        Action::Push(subfield) => with_subfield(out, "push:", subfield),
        Action::Pop(subfield) => with_subfield(out, "pop:", subfield),
        Action::DecTtl(ids) => {
            out.push_str("dec_ttl");
            if let Some(ids) = ids {
                let ids: Vec<String> = ids.iter().map(u16::to_string).collect();
                put(out, format_args!("({})", ids.join(",")));
            }
        }
        Action::SetMplsLabel(label) => put(out, format_args!("set_mpls_label({label})")),
        Action::SetMplsTc(class) => put(out, format_args!("set_mpls_tc({class})")),
        Action::SetMplsTtl(ttl) => put(out, format_args!("set_mpls_ttl({ttl})")),
        Action::DecMplsTtl => out.push_str("dec_mpls_ttl"),
        Action::PushMpls(kind) => put(out, format_args!("push_mpls:{kind:#06x}")),
        Action::PopMpls(kind) => put(out, format_args!("pop_mpls:{kind:#06x}")),
        Action::DecNshTtl => out.push_str("dec_nsh_ttl"),
        Action::DeleteField { field, .. } => {
            put(out, format_args!("delete_field:{}", field.name()));
        }
        Action::Encap(encap) => print_encap(out, encap),
        Action::Decap(kind) => {
            out.push_str("decap(");
            if *kind != packet_type::USE_NEXT_PROTO {
                let number = alternate_hex(u64::from(*kind & 0xffff));
                put(out, format_args!("packet_type(ns={},type={number})", kind >> 16));
            }
            out.push(')');
        }
        Action::SetTunnel { id, wide } => {
            let width = if *wide || u32::try_from(*id).is_err() { "64" } else { "" };
            put(out, format_args!("set_tunnel{width}:{}", alternate_hex(*id)));
        }
        Action::SetQueue(queue) => put(out, format_args!("set_queue:{queue}")),
        Action::PopQueue => out.push_str("pop_queue"),
        Action::FinTimeout { idle, hard } => {
            let parts = [("idle_timeout", idle), ("hard_timeout", hard)];
            let parts = parts.iter().filter(|(_, time)| **time != 0);
            let parts: Vec<String> = parts.map(|(name, time)| format!("{name}={time}")).collect();
            put(out, format_args!("fin_timeout({})", parts.join(",")));
        }
        Action::Resubmit { in_port, table, with_ct, .. } => {
            print_resubmit(out, *in_port, *table, *with_ct, names);
        }
        Action::Learn(learn) => print_learn(out, learn, names),
        Action::Conjunction { id, clause, n_clauses } => {
            put(out, format_args!("conjunction({id},{}/{n_clauses})", i32::from(*clause) + 1));
        }
        Action::Multipath(multipath) => print_multipath(out, multipath),
        Action::Note(note) => {
            out.push_str("note:");
            put_dotted_hex(out, note);
        }
        Action::Exit => out.push_str("exit"),
        Action::Sample(sample) => print_sample(out, sample, names),
        Action::Ct(ct) => print_ct(out, ct, names),
        Action::CtClear => out.push_str("ct_clear"),
        Action::Nat(nat) => print_nat(out, nat),
        Action::OutputTrunc { port, max_len } => {
            out.push_str("output(port=");
            put_port(out, *port, names);
            put(out, format_args!(",max_len={max_len})"));
        }
        Action::Clone(actions) => nested(out, "clone(", actions, names),
        Action::CheckPktLarger { len, dst } => {
            put(out, format_args!("check_pkt_larger({len})->"));
            put_subfield(out, dst);
        }
        Action::DebugRecirc => out.push_str("debug_recirc"),
        Action::DebugSlow => out.push_str("debug_slow"),
        Action::Meter(meter) => put(out, format_args!("meter:{meter}")),
        Action::ClearActions => out.push_str("clear_actions"),
        Action::WriteActions(actions) => nested(out, "write_actions(", actions, names),
        Action::WriteMetadata { metadata, mask } => {
            put(out, format_args!("write_metadata:{}", alternate_hex(*metadata)));
            if *mask != u64::MAX {
                put(out, format_args!("/{}", alternate_hex(*mask)));
            }
        }
        Action::GotoTable(table) => {
            out.push_str("goto_table:");
            put_table(out, *table, names);
        }
        Action::Unroll { table, cookie } => {
            out.push_str("unroll_xlate(table=");
            put_table(out, *table, names);
            put(out, format_args!(", cookie={cookie})"));
        }
    }
}

fn with_subfield(out: &mut String, prefix: &str, subfield: &Subfield) {
    out.push_str(prefix);
    put_subfield(out, subfield);
}

fn nested(out: &mut String, prefix: &str, actions: &[Action], names: &dyn Names) {
    out.push_str(prefix);
    print_actions(out, actions, names);
    out.push(')');
}

/// The reason as packet-in texts and actions name it.
pub(crate) fn reason_text(reason: PacketInReason) -> String {
    match reason {
        PacketInReason::EXPLICIT_MISS | PacketInReason::IMPLICIT_MISS => String::new(),
        _ => reason.name().map_or_else(|| reason.0.to_string(), str::to_owned),
    }
}

fn print_controller(out: &mut String, controller: &Controller) {
    let plain = controller.reason == PacketInReason::ACTION
        && controller.controller_id == 0
        && controller.userdata.is_empty()
        && !controller.pause
        && controller.meter_id.is_none();
    if plain {
        put(out, format_args!("CONTROLLER:{}", controller.max_len));
        return;
    }
    out.push_str("controller(");
    if controller.reason != PacketInReason::ACTION {
        put(out, format_args!("reason={},", reason_text(controller.reason)));
    }
    if controller.max_len != u16::MAX {
        put(out, format_args!("max_len={},", controller.max_len));
    }
    if controller.controller_id != 0 {
        put(out, format_args!("id={},", controller.controller_id));
    }
    if !controller.userdata.is_empty() {
        out.push_str("userdata=");
        put_dotted_hex(out, &controller.userdata);
        out.push(',');
    }
    if controller.pause {
        out.push_str("pause,");
    }
    if let Some(meter) = controller.meter_id {
        put(out, format_args!("meter_id={meter},"));
    }
    chomp(out, ',');
    out.push(')');
}

fn print_bundle(out: &mut String, bundle: &Bundle, names: &dyn Names) {
    let verb = if bundle.dst.is_some() { "bundle_load" } else { "bundle" };
    let algorithm = match bundle.algorithm {
        BundleAlgorithm::Hrw => "hrw",
        BundleAlgorithm::ActiveBackup => "active_backup",
    };
    let fields = bundle.fields.name();
    put(out, format_args!("{verb}({fields},{},{algorithm},ofport,", bundle.basis));
    if let Some(dst) = &bundle.dst {
        put_subfield(out, dst);
        out.push(',');
    }
    out.push_str("members:");
    for (index, member) in bundle.members.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        put_port(out, *member, names);
    }
    out.push(')');
}

fn print_multipath(out: &mut String, multipath: &Multipath) {
    let (fields, algorithm) = (multipath.fields.name(), multipath.algorithm.name());
    let n_links = i32::from(multipath.max_link) + 1;
    let (basis, arg) = (multipath.basis, multipath.arg);
    put(out, format_args!("multipath({fields},{basis},{algorithm},{n_links},{arg},"));
    put_subfield(out, &multipath.dst);
    out.push(')');
}

fn print_set_field(out: &mut String, set: &SetField, names: &dyn Names) {
    if set.form == SetForm::Load {
        for (subfield, value) in set.segments() {
            put(out, format_args!("load:{}->", alternate_hex(value)));
            put_subfield(out, &subfield);
            out.push(',');
        }
        chomp(out, ',');
    } else {
        out.push_str("set_field:");
        put_value(out, set.field, &set.value, Some(&set.mask), names);
        put(out, format_args!("->{}", set.field.name()));
    }
}

fn print_encap(out: &mut String, encap: &Encap) {
    let name = match encap.packet_type {
        packet_type::ETHERNET => "ethernet",
        packet_type::NSH => "nsh",
        packet_type::MPLS => "mpls",
        packet_type::MPLS_MULTICAST => "mpls_mc",
        _ => "UNKNOWN",
    };
    put(out, format_args!("encap({name}"));
    if !encap.properties.is_empty() {
        out.push('(');
        for property in &encap.properties {
            match property {
                EncapProperty::NshMdType(kind) => put(out, format_args!("md_type={kind},")),
                EncapProperty::NshTlv { class, kind, data } => {
                    put(out, format_args!("tlv({class:#06x},{kind},"));
                    put_hex(out, data);
                    out.push_str("),");
                }
            }
        }
        chomp(out, ',');
        out.push(')');
    }
    out.push(')');
}

fn print_resubmit(out: &mut String, in_port: PortNo, table: u8, with_ct: bool, names: &dyn Names) {
    if in_port != PortNo::IN_PORT && table == u8::MAX {
        out.push_str("resubmit:");
        put_port(out, in_port, names);
        return;
    }
    out.push_str("resubmit(");
    if in_port != PortNo::IN_PORT {
        put_port(out, in_port, names);
    }
    out.push(',');
    if table != u8::MAX {
        put_table(out, table, names);
    }
    out.push_str(if with_ct { ",ct)" } else { ")" });
}

fn print_learn(out: &mut String, learn: &Learn, names: &dyn Names) {
    out.push_str("learn(table=");
    put_table(out, learn.table_id, names);
    let times = [
        ("idle_timeout", learn.idle_timeout),
        ("hard_timeout", learn.hard_timeout),
        ("fin_idle_timeout", learn.fin_idle_timeout),
        ("fin_hard_timeout", learn.fin_hard_timeout),
    ];
    for (name, time) in times.into_iter().filter(|(_, time)| *time != 0) {
        put(out, format_args!(",{name}={time}"));
    }
    if learn.priority != DEFAULT_PRIORITY {
        put(out, format_args!(",priority={}", learn.priority));
    }
    if learn.flags & Learn::SEND_FLOW_REM != 0 {
        out.push_str(",send_flow_rem");
    }
    if learn.flags & Learn::DELETE_LEARNED != 0 {
        out.push_str(",delete_learned");
    }
    if learn.cookie != 0 {
        put(out, format_args!(",cookie={:#x}", learn.cookie));
    }
    if learn.limit != 0 {
        put(out, format_args!(",limit={}", learn.limit));
    }
    if let Some(dst) = learn.result_dst.as_ref().filter(|_| learn.flags & Learn::WRITE_RESULT != 0)
    {
        with_subfield(out, ",result_dst=", dst);
    }
    for spec in &learn.specs {
        out.push(',');
        let immediate = |value: &Value| value.to_bytes(usize::from(spec.bits).div_ceil(8));
        match (&spec.src, &spec.dst) {
            (LearnSource::Immediate(value), LearnDestination::Match(dst)) if dst.is_whole() => {
                put(out, format_args!("{}=", dst.field.name()));
                put_value(out, dst.field, value, None, names);
            }
            (LearnSource::Immediate(value), LearnDestination::Match(dst)) => {
                put_subfield(out, dst);
                out.push('=');
                put_hex(out, &immediate(value));
            }
            (LearnSource::Field(src), LearnDestination::Match(dst)) => {
                put_subfield(out, dst);
                if (src.field, src.offset) != (dst.field, dst.offset) {
                    with_subfield(out, "=", src);
                }
            }
            (LearnSource::Immediate(value), LearnDestination::Load(dst)) => {
                out.push_str("load:");
                put_hex(out, &immediate(value));
                with_subfield(out, "->", dst);
            }
            (LearnSource::Field(src), LearnDestination::Load(dst)) => {
                with_subfield(out, "load:", src);
                with_subfield(out, "->", dst);
            }
            (LearnSource::Field(src), LearnDestination::Output) => {
                with_subfield(out, "output:", src);
            }
            (LearnSource::Immediate(_), LearnDestination::Output) => {}
        }
    }
    out.push(')');
}

fn print_sample(out: &mut String, sample: &Sample, names: &dyn Names) {
    let Sample { probability, collector_set_id, .. } = sample;
    put(out, format_args!("sample(probability={probability},collector_set_id={collector_set_id}"));
    let parts = [("obs_domain_id", &sample.obs_domain), ("obs_point_id", &sample.obs_point)];
    for (name, number) in parts {
        put(out, format_args!(",{name}="));
        match number {
            Number::Immediate(number) => put(out, format_args!("{number}")),
            Number::Field(subfield) => put_subfield(out, subfield),
        }
    }
    if sample.sampling_port != PortNo::NONE {
        out.push_str(",sampling_port=");
        put_port(out, sample.sampling_port, names);
    }
    out.push_str(match sample.direction {
        SampleDirection::Default => ")",
        SampleDirection::Ingress => ",ingress)",
        SampleDirection::Egress => ",egress)",
    });
}

fn print_ct(out: &mut String, ct: &Ct, names: &dyn Names) {
    out.push_str("ct(");
    if ct.flags & Ct::COMMIT != 0 {
        out.push_str("commit,");
    }
    if ct.flags & Ct::FORCE != 0 {
        out.push_str("force,");
    }
    if ct.recirc_table != Ct::NO_RECIRC {
        out.push_str("table=");
        put_table(out, ct.recirc_table, names);
        out.push(',');
    }
    match &ct.zone {
        Number::Immediate(0) => {}
        Number::Immediate(zone) => put(out, format_args!("zone={zone},")),
        Number::Field(src) => {
            with_subfield(out, "zone=", src);
            out.push(',');
        }
    }
    let mut actions = &ct.actions[..];
    if let [Action::Nat(nat), rest @ ..] = actions {
        print_nat(out, nat);
        out.push(',');
        actions = rest;
    }
    if !actions.is_empty() {
        nested(out, "exec(", actions, names);
        out.push(',');
    }
    match ct.alg {
        0 => {}
        21 => out.push_str("alg=ftp,"),
        69 => out.push_str("alg=tftp,"),
        alg => put(out, format_args!("alg={alg},")),
    }
    chomp(out, ',');
    out.push(')');
}

fn print_nat(out: &mut String, nat: &Nat) {
    out.push_str("nat");
    if nat.flags & (Nat::SRC | Nat::DST) == 0 {
        return;
    }
    out.push_str(if nat.flags & Nat::SRC != 0 { "(src" } else { "(dst" });
    if let Some(addresses) = &nat.addresses {
        out.push('=');
        match addresses {
            NatAddresses::V4(first, last) => {
                put(out, format_args!("{first}"));
                if let Some(last) = last.filter(|last| last != first) {
                    put(out, format_args!("-{last}"));
                }
            }
            NatAddresses::V6(first, last) => {
                put_bracketed(out, *first, nat.port_min != 0);
                if let Some(last) = last.filter(|last| last != first) {
                    out.push('-');
                    put_bracketed(out, last, nat.port_min != 0);
                }
            }
        }
        if nat.port_min != 0 {
            put(out, format_args!(":{}", nat.port_min));
            if nat.port_max != 0 && nat.port_max != nat.port_min {
                put(out, format_args!("-{}", nat.port_max));
            }
        }
        out.push(',');
        let flags = [
            (Nat::PERSISTENT, "persistent,"),
            (Nat::PROTO_HASH, "hash,"),
            (Nat::PROTO_RANDOM, "random,"),
        ];
        for (_, name) in flags.iter().filter(|(flag, _)| nat.flags & flag != 0) {
            out.push_str(name);
        }
    }
    chomp(out, ',');
    out.push(')');
}

fn put_bracketed(out: &mut String, address: Ipv6Addr, brackets: bool) {
    if brackets {
        out.push('[');
    }
    put_ipv6(out, address);
    if brackets {
        out.push(']');
    }
}
