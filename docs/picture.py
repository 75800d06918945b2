"""Draw the picture of the README and of the landing page: python docs/picture.py."""

import runpy
from pathlib import Path

import matplotlib.pyplot as plt

HERE = Path(__file__).parent


def main():
    plt.switch_backend("agg")
    runpy.run_path(str(HERE.parent / "examples" / "plot_private_bins.py"))
    plt.savefig(HERE / "_static" / "private_bins.png", dpi=110)


if __name__ == "__main__":
    main()
