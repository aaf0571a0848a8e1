"""The style of the page, in one text: light and dark, screen and paper, filters without scripts."""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;
--bg:#f4f5f8;--card:#fff;--ink:#191d24;--soft:#414a57;--muted:#5b6471;--line:#dde1e8;
--accent:#2952cc;--user:#e8eefc;--code:#f2f4f8;--shade:#0f172a14;
--good:#0b7a55;--bad:#bf3517;--unknown:#8f5c00;--wait:#1a69ad;--open:#1a69ad;--off:#69717d;
--cut:#8437a3;--stop:#6d5b12;--context:#2952cc;--total:#b0457f}
@media (prefers-color-scheme:dark){:root{
--bg:#0e1116;--card:#161a21;--ink:#e7eaf0;--soft:#c3cad5;--muted:#97a1b0;--line:#2a313c;
--accent:#8fb0ff;--user:#1a2542;--code:#10141a;--shade:#0006;
--good:#41cf9c;--bad:#ff7f63;--unknown:#f4ba4b;--wait:#67b7f5;--open:#67b7f5;--off:#929cab;
--cut:#d595f3;--stop:#d8c25c;--context:#8fb0ff;--total:#f08fc0}}
*{box-sizing:border-box}
html{scroll-padding-top:4.2rem;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--ink);
font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
code,pre,.mono,.name{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
a{color:var(--accent)}
:focus-visible{outline:3px solid var(--accent);outline-offset:2px;border-radius:4px}
.skip{position:absolute;left:-99rem}.skip:focus{left:1rem;top:1rem;z-index:9;background:var(--card);
padding:.5rem 1rem}
.defs{position:absolute}
.wide{max-width:1320px;margin:0 auto;padding:0 1.25rem}
.icon{width:1em;height:1em;flex:none;vertical-align:-.12em;fill:currentColor;stroke:none}
symbol .in,.icon .in{fill:none;stroke:var(--card);stroke-width:1.9;stroke-linecap:round;
stroke-linejoin:round}
symbol .ring{fill:none;stroke:currentColor;stroke-width:2;stroke-dasharray:3.2 2.2}
.good{color:var(--good)}.bad{color:var(--bad)}.unknown{color:var(--unknown)}
.wait{color:var(--wait)}.open{color:var(--open)}.off{color:var(--off)}.cut{color:var(--cut)}
.stop{color:var(--stop)}

header.wide{padding-top:1.8rem}
.picture .plate{fill:var(--card);fill-opacity:.9;stroke:none}
.picture .bar{stroke-width:.5}
h1{font-size:1.75rem;line-height:1.25;margin:.1rem 0 .5rem;letter-spacing:-.012em;
overflow-wrap:anywhere}
.eyebrow{color:var(--muted);font-size:.8rem;letter-spacing:.08em;text-transform:uppercase;margin:0}
.chips{display:flex;flex-wrap:wrap;gap:.4rem;margin:0;padding:0;list-style:none}
.chips li{border:1px solid var(--line);background:var(--card);border-radius:99px;
padding:.08rem .7rem;font-size:.83rem;color:var(--soft);max-width:100%;overflow-wrap:anywhere}
.chips b{font-weight:500;color:var(--muted);margin-right:.35em}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.75rem;
margin:1.1rem 0}
.tiles div{background:var(--card);border:1px solid var(--line);border-radius:12px;
padding:.7rem .95rem}
.tiles dt{color:var(--muted);font-size:.8rem}
.tiles dd{margin:0;font-size:1.3rem;font-weight:620;font-variant-numeric:tabular-nums}
.tiles dd small{display:block;font-size:.8rem;font-weight:400;color:var(--muted)}
.alert{border:2px solid var(--bad);border-radius:12px;background:var(--card);padding:.8rem 1.1rem;
margin:1rem 0}
.alert h2{color:var(--bad);font-size:1rem;margin:0 0 .3rem;display:flex;gap:.5rem;
align-items:center}
.alert ul{margin:.2rem 0;padding-left:1.2rem;overflow-wrap:anywhere}

figure{background:var(--card);border:1px solid var(--line);border-radius:14px;margin:0 0 1rem;
padding:1rem 1.1rem .8rem}
figcaption{display:flex;flex-wrap:wrap;gap:.25rem 1rem;color:var(--muted);font-size:.82rem;
margin-bottom:.4rem}
figcaption strong{color:var(--ink);margin-right:auto;font-size:.95rem}
figcaption span{display:inline-flex;gap:.35rem;align-items:center}
figcaption span span{color:var(--muted)}
.scroll{overflow-x:auto}
.picture{display:block;min-width:36rem;overflow:visible}
.picture text{font:11px system-ui,sans-serif;fill:var(--muted)}
.picture .number{font-weight:650;fill:var(--ink);font-size:12px}
.picture .end{text-anchor:end}
.picture .gap path{stroke:var(--line);stroke-width:2;stroke-dasharray:2 4;fill:none}
.picture .compaction path{stroke:var(--unknown);stroke-width:1.5;stroke-dasharray:4 3;fill:none}
.picture .ground{stroke:var(--line);vector-effect:non-scaling-stroke}
.picture .area{fill:var(--context);opacity:.14}
.picture .context,.picture .total{fill:none;stroke:var(--context);stroke-width:1.75;
vector-effect:non-scaling-stroke;stroke-linejoin:round}
.picture .total{stroke:var(--total);stroke-dasharray:5 3}
.k-context{fill:var(--context)}.k-total{fill:var(--total)}
.block:hover .run,.block:focus-visible .run{stroke-width:3}
.block.hidden{opacity:.45}
.run.k-good,.run.k-open{fill-opacity:.22}
.k-good{fill:var(--good);stroke:var(--good);color:var(--good)}
.k-open{fill:var(--open);stroke:var(--open);color:var(--open)}
.k-bad{fill:url(#p-bad);stroke:var(--bad);color:var(--bad)}
.k-unknown{fill:url(#p-unknown);stroke:var(--unknown);color:var(--unknown)}
.k-wait{fill:url(#p-wait);stroke:var(--wait);color:var(--wait)}
.k-cut{fill:url(#p-cut);stroke:var(--cut);color:var(--cut)}
.k-stop{fill:url(#p-stop);stroke:var(--stop);color:var(--stop)}
.k-off{fill:none;stroke:var(--off);color:var(--off);stroke-dasharray:3 2}
use.k-good,use.k-open,use.k-bad,use.k-unknown,use.k-wait,use.k-cut,use.k-stop{fill:currentColor;
stroke:none}
.under{stroke:none;fill:currentColor;fill-opacity:.16}

g.over{fill:none;stroke:currentColor;stroke-width:1.4}
#p-unknown g.over{fill:currentColor;stroke:none}

.filters{position:sticky;top:0;z-index:5;background:var(--bg);border-bottom:1px solid var(--line);
box-shadow:0 6px 12px -12px var(--shade)}
.filters fieldset{border:0;margin:0;padding:.55rem 0;display:flex;flex-wrap:wrap;
gap:.35rem .45rem;align-items:center}
.filters legend{float:left;padding:0;margin-right:.6rem;color:var(--muted);font-size:.85rem}
.filters label{display:inline-flex;gap:.4rem;align-items:center;font-size:.86rem;cursor:pointer;
border:1px solid var(--line);border-radius:99px;background:var(--card);padding:.12rem .75rem}
.filters label:has(:checked){border-color:var(--accent)}
.filters input{accent-color:var(--accent);margin:0}
body:has(#f-user:not(:checked)) .entry.from-user,
body:has(#f-assistant:not(:checked)) .entry.from-assistant>.what,
body:has(#f-assistant:not(:checked)) .entry.from-assistant:not(:has(.call)),
body:has(#f-calls:not(:checked)) .calls,
body:has(#f-calls:not(:checked)) .entry.from-program,
body:has(#f-calls:not(:checked)) .entry.late,
body:has(#f-marks:not(:checked)) .entry.mark:not(.minor):not(.trouble),
body:has(#f-minor:not(:checked)) .entry.minor,
body:has(#f-hidden:not(:checked)) .hidden,
body:has(#f-trouble:checked) .entry:not(.trouble),
body:has(#f-trouble:checked) .call:not(.trouble),
body:has(#f-trouble:checked) .loose:not(:has(.trouble)),
body:has(#f-trouble:checked) .run-part:not(.trouble){display:none}

.layout{display:grid;grid-template-columns:17rem minmax(0,1fr);gap:1.5rem;align-items:start;
margin-top:1rem}
nav{position:sticky;top:4.2rem;max-height:calc(100vh - 5rem);overflow:auto;font-size:.86rem}
nav h2{font-size:.8rem;color:var(--muted);margin:0 0 .3rem;text-transform:uppercase;
letter-spacing:.07em}
nav ol{list-style:none;margin:0;padding:0}
nav a{display:grid;grid-template-columns:auto 1fr auto;gap:.5rem;padding:.3rem .5rem;
border-radius:8px;text-decoration:none;color:var(--soft);align-items:baseline}
nav a:hover{background:var(--card)}
nav a span:nth-of-type(1){overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
nav a span:nth-of-type(2){color:var(--muted);font-variant-numeric:tabular-nums;white-space:nowrap}
nav .hidden a{opacity:.6;text-decoration:line-through}

.run-part{background:var(--card);border:1px solid var(--line);border-radius:14px;
margin-bottom:1.1rem}
.run-part>summary{list-style:none;cursor:pointer;padding:.75rem 1.1rem;display:grid;
gap:.1rem .7rem;
grid-template-columns:auto minmax(0,1fr) auto;align-items:center}
.run-part>summary::-webkit-details-marker{display:none}
.run-part[open]>summary{border-bottom:1px solid var(--line)}
.run-part>summary>.icon{width:1.35rem;height:1.35rem}
.run-part h2{font-size:1.02rem;margin:0;font-weight:640;color:var(--ink);overflow:hidden;
text-overflow:ellipsis;white-space:nowrap}
.run-part[open] h2{white-space:normal}
.run-part h2 small{font-weight:400;color:var(--soft);font-size:.95rem}
.run-part .sum{grid-column:2;color:var(--muted);font-size:.84rem;display:flex;flex-wrap:wrap;
gap:0 .9rem;font-variant-numeric:tabular-nums}
.run-part .fold{grid-row:1;grid-column:3;color:var(--muted);font-size:.82rem}
.run-part .fold::after{content:"show"}.run-part[open] .fold::after{content:"hide"}
.run-part:target{border-color:var(--accent);box-shadow:0 0 0 3px var(--shade)}
.run-part.hidden{border-style:dashed}
.outcome{margin:0 1.1rem;padding:.6rem 0 .9rem 1.9rem;font-size:.88rem;color:var(--soft);
overflow-wrap:anywhere}

.entry{display:grid;grid-template-columns:1.2rem minmax(0,1fr);gap:.25rem .75rem;
padding:.85rem 1.1rem;content-visibility:auto;contain-intrinsic-size:auto 7rem}
.entry+.entry{border-top:1px solid var(--line)}
.entry>.icon{width:1.1rem;height:1.1rem;margin-top:.22rem;color:var(--muted)}
.from-user{background:var(--user)}
.from-user>.icon,.from-assistant>.icon{color:var(--accent)}
.entry>.what,.entry>.calls{grid-column:2;min-width:0}
.entry .who{display:flex;flex-wrap:wrap;gap:0 .8rem;font-size:.8rem;color:var(--muted);
margin:0 0 .15rem;font-variant-numeric:tabular-nums;align-items:baseline}
.entry .who strong{color:var(--ink);font-size:.9rem}
.entry.hidden{opacity:.62;border-left:4px dotted var(--muted)}
.tag{border:1px solid currentColor;border-radius:6px;padding:0 .4rem;font-size:.76rem}
.prose{white-space:pre-wrap;overflow-wrap:anywhere;unicode-bidi:plaintext;max-width:52rem}
.prose code{background:var(--code);border-radius:4px;padding:.05em .3em;font-size:.9em}
.prose+.prose,.prose+pre,pre+.prose,pre+pre{margin-top:.6rem}
pre{background:var(--code);border:1px solid var(--line);border-radius:9px;margin:.25rem 0;
padding:.6rem .8rem;overflow:auto;max-height:30rem;font-size:.83rem;line-height:1.5;tab-size:4;
unicode-bidi:plaintext}
pre.raw{white-space:pre-wrap;overflow-wrap:anywhere}
.lang{color:var(--muted);font-size:.75rem;margin-top:.5rem}
.hid{background:var(--unknown);color:var(--card);border-radius:3px;padding:0 .15em;font-size:.85em}
.note{color:var(--muted);font-size:.85rem}
img{max-width:100%;max-height:32rem;border-radius:8px;border:1px solid var(--line)}
details.more>summary,details.think>summary{cursor:pointer;color:var(--accent);font-size:.88rem}
details.think>summary{color:var(--muted)}
.calls{display:grid;gap:.35rem;margin-top:.45rem}
.call{border:1px solid var(--line);border-left:4px solid currentColor;border-radius:9px;
background:var(--card)}
.call>summary{list-style:none;cursor:pointer;display:grid;align-items:center;gap:.65rem;
grid-template-columns:auto minmax(0,1fr) minmax(5rem,26%) 5.4rem;padding:.36rem .75rem;
font-size:.87rem}
.call>summary::-webkit-details-marker{display:none}
.call>summary:hover{background:var(--code);border-radius:8px}
.call .title{overflow:hidden;text-overflow:ellipsis;white-space:nowrap;color:var(--muted)}
.call[open] .title{white-space:normal;overflow-wrap:anywhere}
.call .name{color:var(--ink);font-weight:600;margin-right:.5em}
.call .title .state{font-weight:600;margin-right:.5em}
.call .title .state:not(.unknown){color:var(--soft)}
.call.bad .title .state{color:var(--bad)}.call.wait .title .state{color:var(--wait)}
.call.unknown .title .state{color:var(--unknown)}
.call .length{text-align:right;color:var(--soft);font-variant-numeric:tabular-nums;
font-size:.82rem}
.water{display:block;width:100%;height:12px;overflow:visible}
.water .track{fill:var(--line);stroke:none}
.call .inside{color:var(--ink);padding:.1rem .85rem .8rem;border-top:1px solid var(--line)}
.call h4,.args dt{font-size:.78rem;color:var(--muted);font-weight:500;margin:.6rem 0 .1rem}
.args{margin:0;display:grid;grid-template-columns:minmax(4rem,auto) minmax(0,1fr);gap:.15rem .9rem}
.args dt{margin:.1rem 0;font-family:ui-monospace,monospace}
.args dd{margin:0;min-width:0;overflow-wrap:anywhere;font-size:.86rem}
.args dd>pre{max-height:18rem}
.remarks{margin:.5rem 0 0;padding:0;list-style:none;display:grid;gap:.25rem}
.remarks li{display:grid;grid-template-columns:auto minmax(0,1fr);gap:.1rem .55rem;
align-items:baseline;font-size:.87rem;overflow-wrap:anywhere}
.remarks li>pre{grid-column:2}
.error{border-color:var(--bad)}
.mark .what{font-size:.9rem}
.mark.compaction,.mark.rewind{background:repeating-linear-gradient(135deg,var(--code) 0 9px,
var(--card) 9px 18px)}
.mark .what>.prose{margin-top:.2rem}
.loose{background:var(--card);border:1px solid var(--line);border-radius:14px;margin-bottom:1.1rem;
overflow:hidden}
footer{color:var(--muted);font-size:.84rem;padding:1.5rem 0 3rem}

@media (max-width:56rem){.layout{grid-template-columns:minmax(0,1fr)}
nav{position:static;max-height:12rem;border:1px solid var(--line);border-radius:12px;padding:.6rem}
.filters{position:static}html{scroll-padding-top:.5rem}}
@media (max-width:36rem){.call>summary{grid-template-columns:auto minmax(0,1fr) auto}
.water{display:none}.wide{padding:0 .7rem}.entry{padding:.75rem .8rem}}
@media print{:root{--bg:#fff;--card:#fff;--code:#f6f7f9;color-scheme:light}
.filters,nav,.skip,.fold{display:none!important}.layout{display:block}
.wide{max-width:none;padding:0}
pre{max-height:none!important;white-space:pre-wrap;overflow-wrap:anywhere}
.entry{content-visibility:visible;break-inside:auto}
.run-part>summary,.call>summary,.entry .who{break-after:avoid}
details::details-content{content-visibility:visible;display:block;height:auto}
.picture{min-width:0}body{font-size:11pt}}
@media (prefers-reduced-motion:no-preference){html{scroll-behavior:smooth}}
@media (forced-colors:active){.call,.run-part,.entry{border-color:CanvasText}}
"""
