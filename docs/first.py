import numpy as np
import tvdbayes as tb

rng = np.random.default_rng(1)
region = rng.integers(0, 3, 600)
visits = rng.poisson(np.exp(0.7 + 0.3 * region))
visits[:60] += 15  # a tenth of the rows is wrong

fit = tb.fit("visits ~ region", {"visits": visits, "region": region}, family="poisson")
print(fit.summary())  # robust beside likelihood fit, and their difference
print(fit.misfit())  # how much of the data the model cannot explain, beside chance
print(fit.rows().query("flag")[["visits", "region", "surprise"]].head(3))  # and which rows
