"""The look of the gallery's figures: large enough to be read on a card and on a phone."""


def set_style(gallery_conf, script):
    """Set what Matplotlib starts every script with; sphinx-gallery calls this."""
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {
            "font.size": 12,
            "axes.titlesize": 13,
            "legend.fontsize": 11,
            "lines.linewidth": 2,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "savefig.bbox": "tight",
        }
    )
