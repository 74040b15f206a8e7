"""A training loop that takes 10 s: it fits a weight to y = 3x.  It knows nothing of natjam but where it may save."""

import json
import os
import pathlib
import time

saved = pathlib.Path(os.environ.get("NATJAM_SAVED", "."), "saved.json")
step, weight = json.loads(saved.read_text()) if saved.exists() else (0, 0.0)
while step < 100:
    time.sleep(0.1)
    step, weight = step + 1, weight - 0.002 * sum((weight * x - 3 * x) * x for x in range(1, 6))
    print(f"step {step}: weight {weight:.6f}", flush=True)
    if "NATJAM_SAVED" in os.environ and step % 20 == 0:
        saved.write_text(json.dumps([step, weight]))
pathlib.Path("model.txt").write_text(f"{weight:.6f}\n")
