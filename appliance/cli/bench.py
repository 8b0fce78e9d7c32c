"""`appliance bench`: measurements. Each ends with one JSON object on the last line of stdout."""

import typer

from appliance.cli import bench_asr, bench_endpoint, bench_latency, bench_llm, bench_load, bench_tts

app = typer.Typer(
    help="Measure this box: latency, load, end of turn, recognition, language model, voice.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("latency", epilog="Example: appliance bench latency --tier tiny --repeat 2")(bench_latency.latency)
app.command("load")(bench_load.load)
app.command("endpoint")(bench_endpoint.endpoint)
app.command("llm")(bench_llm.llm)
app.command("asr")(bench_asr.asr)
app.command("tts")(bench_tts.tts)
