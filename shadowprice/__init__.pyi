from shadowprice.allocation import Problem as Problem
from shadowprice.allocation import Resource as Resource
from shadowprice.allocation import on_response as on_response
from shadowprice.allocation import solve as solve
from shadowprice.campaign import Campaign as Campaign
from shadowprice.curves import Curves as Curves
from shadowprice.decision import decide as decide
from shadowprice.experiments import lift as lift
from shadowprice.experiments import plan as plan
from shadowprice.responses import make as make

__version__: str
